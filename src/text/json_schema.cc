#include "text/json_schema.h"

#include <utility>

#include "text/schema/compiled_schema.h"
#include "text/schema/schema_validator.h"

namespace stoker {

JsonSchema::JsonSchema(Json schema, const std::string& what)
    : compiled_(compile_schema(std::move(schema), what)) {}

std::optional<std::string> JsonSchema::validate(const Json& value, const std::string& root) const {
  if (schema().is_null()) return std::nullopt;
  return SchemaValidator(*compiled_, root).validate(value);
}

const Json& JsonSchema::schema() const { return compiled_->root; }

}  // namespace stoker
