#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"

namespace stoker {

struct CompiledSchema;

// Validates values against a JSON Schema (draft 2020-12, with the older spellings of the same): type, enum,
// const; properties, required, additionalProperties, patternProperties, propertyNames, minProperties,
// maxProperties, dependentRequired, dependentSchemas, dependencies; items, prefixItems, additionalItems,
// contains, minContains, maxContains, minItems, maxItems, uniqueItems; minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, multipleOf; minLength, maxLength, pattern; allOf, anyOf, oneOf, not, if, then, else;
// $ref to a place in the schema (#/...), $defs, definitions; OpenAPI's nullable. Annotations (title,
// description, default, examples, format, ...) and keywords that begin with x- have no effect.
//
// Numbers are compared as numbers: 1.0 is an integer and equals 1. Patterns are searched for, in the syntax
// that ECMAScript and PCRE2 share.
//
//   JsonSchema schema(tool.parameters, "tool 'calculator'");  // throws Error(kInput) on what it cannot check
//   std::optional<std::string> problem = schema.validate(call.arguments);
//
// Immutable and cheap to copy; any number of threads may use one.
class JsonSchema {
 public:
  // A keyword outside the list above, or one with a value of the wrong type, a reference that leads nowhere
  // or a pattern that cannot be read throws Error(kInput) naming `what`, the keyword and its place: a schema
  // that is only half checked would be worse than none. Null accepts everything.
  JsonSchema(Json schema, const std::string& what);

  // Nothing when `value` is valid, else one sentence of bounded length that a model can act on: where, what
  // was expected, what was found: "arguments.x must be a number, but is the string \"two\"." The first
  // problem in the schema's order. `root` is what the value itself is called. Depth, steps and the work of
  // patterns are limited: a value that exceeds them has a problem that says so.
  std::optional<std::string> validate(const Json& value, const std::string& root = "arguments") const;

  const Json& schema() const;

 private:
  std::shared_ptr<const CompiledSchema> compiled_;
};

}  // namespace stoker
