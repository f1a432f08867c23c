#include "text/parsers/parameter_type.h"

#include "base/json_string.h"
#include "text/json_text.h"
#include "text/parsers/turn_input.h"

namespace stoker {
namespace {

// Schemas looked at for one parameter: what lies behind more of them is unknown.
constexpr int kMostSchemas = 256;

void add_type_name(ParameterType& type, const Json& name) {
  if (!name.is_string()) return;
  const std::string& text = name.as_string();
  if (text == "string" || text == "str") {
    type.string = true;
  } else if (text == "null") {
    type.null = true;
  } else if (text == "any") {
    type.unknown = true;
  } else {
    type.other = true;
  }
}

void add_type_of(ParameterType& type, const Json& value) {
  if (value.is_string()) {
    type.string = true;
  } else if (value.is_null()) {
    type.null = true;
  } else {
    type.other = true;
  }
}

const Json* follow(const Json& root, const std::string& reference) {
  if (!reference.starts_with("#/")) return nullptr;
  const Json* place = &root;
  for (size_t begin = 2; begin <= reference.size() && place != nullptr;) {
    size_t end = std::min(reference.find('/', begin), reference.size());
    place = place->find(std::string_view(reference).substr(begin, end - begin));
    begin = end + 1;
  }
  return place;
}

void add_schema(ParameterType& type, const Json& schema, const Json& root, int& budget) {
  if (!schema.is_object() || --budget < 0) {
    type.unknown = true;
    return;
  }
  bool said = false;
  if (const Json* name = schema.find("type")) {
    said = true;
    if (name->is_array()) {
      for (const Json& one : name->as_array()) add_type_name(type, one);
    } else {
      add_type_name(type, *name);
    }
  } else if (const Json* values = schema.find("enum"); values != nullptr && values->is_array()) {
    said = true;
    for (const Json& value : values->as_array()) add_type_of(type, value);
  } else if (const Json* value = schema.find("const")) {
    said = true;
    add_type_of(type, *value);
  } else if (const Json* target = schema.find("$ref"); target != nullptr && target->is_string()) {
    const Json* meant = follow(root, target->as_string());
    said = meant != nullptr;
    if (meant != nullptr) add_schema(type, *meant, root, budget);
  }
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const Json* forms = said ? nullptr : schema.find(keyword);
    if (forms == nullptr || !forms->is_array() || forms->as_array().empty()) continue;
    for (const Json& form : forms->as_array()) add_schema(type, form, root, budget);
    said = true;
  }
  const Json* nullable = schema.find("nullable");
  if (nullable != nullptr && *nullable == Json(true)) type.null = true;
  if (!said) type.unknown = true;
}

std::string quoted_json_text(std::string_view text) {
  std::string json;
  append_json_string(json, text, InvalidUtf8::kKeep);
  return json;
}

}  // namespace

std::string ParameterType::to_json(std::string_view text) const {
  std::string_view value = trimmed(text);
  if ((null || unknown) && (value == "null" || value == "None")) return "null";
  if (string) return quoted_json_text(text);
  if (value == "True") return "true";
  if (value == "False") return "false";
  JsonScan scan = scan_json(std::string(value) + ' ');
  bool whole = scan.status == JsonScan::Status::kComplete && scan.position == value.size();
  return whole && Json::try_parse(value) ? std::string(value) : quoted_json_text(text);
}

ParameterType parameter_type(const std::vector<ToolSchema>& tools, std::string_view name,
                             std::string_view parameter) {
  ParameterType type;
  for (const ToolSchema& tool : tools) {
    if (tool.name != name) continue;
    const Json* properties = tool.parameters.find("properties");
    const Json* schema = properties == nullptr ? nullptr : properties->find(parameter);
    if (schema == nullptr) break;
    int budget = kMostSchemas;
    add_schema(type, *schema, tool.parameters, budget);
    return type;
  }
  type.string = true;
  return type;
}

}  // namespace stoker
