#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/json.h"
#include "text/schema/pattern.h"

namespace stoker {

// A schema that was checked, with what its validation needs at hand.
struct CompiledSchema {
  Json root;
  std::map<std::string, const Json*, std::less<>> references;  // by the text of $ref; into `root`
  std::map<std::string, SchemaPattern, std::less<>> patterns;  // by their text

  CompiledSchema() = default;
  CompiledSchema(const CompiledSchema&) = delete;
  CompiledSchema& operator=(const CompiledSchema&) = delete;
};

// Checks the schema; throws Error(kInput) naming `what`, the keyword and its place.
std::shared_ptr<const CompiledSchema> compile_schema(Json schema, const std::string& what);

}  // namespace stoker
