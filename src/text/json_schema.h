#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace stoker {

// Validates values against a JSON Schema (draft 2020-12): type, enum, const, properties, required,
// additionalProperties, minProperties, maxProperties, items, minItems, maxItems, uniqueItems, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, allOf, anyOf, oneOf, not.
// Annotations (title, description, default, examples, format, ...) have no effect.
//
//   JsonSchema schema(tool.parameters, "tool 'calculator'");      // throws Error(kInput) on what it cannot
//   check std::optional<std::string> problem = schema.validate(call.arguments);
class JsonSchema {
 public:
  // A keyword outside the list above, or one with a value of the wrong type, throws Error(kInput) naming
  // `what`, the keyword and its place: a schema that is only half checked would be worse than none. Null
  // accepts everything.
  JsonSchema(Json schema, const std::string& what);

  // Nothing when `value` is valid, else one sentence that a model can act on: where, what was expected, what
  // was found: "arguments.x must be a number, but is the string \"two\"." The first problem in the schema's
  // order. `root` is what the value itself is called.
  std::optional<std::string> validate(const Json& value, const std::string& root = "arguments") const;

  const Json& schema() const { return schema_; }

 private:
  Json schema_;
};

}  // namespace stoker
