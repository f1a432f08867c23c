// The keywords of objects.
#include <fmt/format.h>

#include <vector>

#include "base/json_string.h"
#include "text/schema/schema_validator.h"

namespace stoker {
namespace {

constexpr size_t kMostShownMembers = 40;

std::string quoted_member(std::string_view name) {
  std::string text;
  append_json_string(text, name.substr(0, 80));
  return text;
}

// The members that a schema names, for a sentence.
std::string known_members(const Json* properties) {
  std::string known;
  size_t count = 0;
  if (properties != nullptr) {
    for (const auto& property : properties->as_object()) {
      if (count++ == kMostShownMembers || known.size() > 400) return known + ", ...";
      known += (known.empty() ? "" : ", ") + property.first.substr(0, 80);
    }
  }
  return known.empty() ? "none" : known;
}

}  // namespace

SchemaValidator::Result SchemaValidator::check_object(const Json& schema, std::string_view keyword,
                                                      const Json& rule, const Json& value,
                                                      const Place& place) {
  size_t size = value.as_object().size();
  if (keyword == "minProperties" || keyword == "maxProperties") {
    return check_count(keyword == "minProperties", rule, size, "members", place);
  }
  if (keyword == "required") {
    for (const Json& name : rule.as_array()) {
      if (Result out = spend(place, size / 8)) return out;
      if (value.find(name.as_string()) == nullptr) {
        return problem(place, "lacks the required member " + quoted_member(name.as_string()));
      }
    }
  }
  if (keyword == "properties") {
    for (const auto& [name, property] : rule.as_object()) {
      if (Result out = spend(place, size / 8)) return out;
      const Json* member = value.find(name);
      if (member == nullptr) continue;
      Place inner{&place, name, 0, place.depth + 1};
      if (Result found = check(property, *member, inner)) return found;
    }
  }
  if (keyword == "patternProperties") return check_patterns(rule, value, place);
  if (keyword == "additionalProperties") return check_additional(schema, rule, value, place);
  if (keyword == "propertyNames") {
    for (const auto& member : value.as_object()) {
      Place inner{&place, member.first, 0, place.depth + 1};
      if (Result found = check(rule, Json(member.first), inner)) {
        return problem(place, fmt::format("has a member {} whose name is not allowed: {}",
                                          quoted_member(member.first), found->sentence.substr(0, 400)));
      }
    }
  }
  if (keyword == "dependentRequired" || keyword == "dependentSchemas" || keyword == "dependencies") {
    return check_dependencies(rule, value, place);
  }
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::check_patterns(const Json& rule, const Json& value,
                                                        const Place& place) {
  for (const auto& [pattern, schema] : rule.as_object()) {
    for (const auto& [name, member] : value.as_object()) {
      Place inner{&place, name, 0, place.depth + 1};
      bool found = false;
      if (Result out = matches(pattern, name, inner, found)) return out;
      if (!found) continue;
      if (Result bad = check(schema, member, inner)) return bad;
    }
  }
  return std::nullopt;
}

// The members of `value` that neither `properties` nor `patternProperties` name.
SchemaValidator::Result SchemaValidator::check_additional(const Json& schema, const Json& rule,
                                                          const Json& value, const Place& place) {
  const Json* properties = schema.find("properties");
  const Json* patterns = schema.find("patternProperties");
  for (const auto& [name, member] : value.as_object()) {
    if (properties != nullptr) {
      if (Result out = spend(place, properties->as_object().size() / 8)) return out;
      if (properties->find(name) != nullptr) continue;
    }
    Place inner{&place, name, 0, place.depth + 1};
    bool named = false;
    if (patterns != nullptr) {
      for (const auto& pattern : patterns->as_object()) {
        if (Result out = matches(pattern.first, name, inner, named)) return out;
        if (named) break;
      }
    }
    if (named) continue;
    if (rule == Json(false)) {
      return problem(place, fmt::format("has the unknown member {}; the known ones are: {}",
                                        quoted_member(name), known_members(properties)));
    }
    if (Result found = check(rule, member, inner)) return found;
  }
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::check_dependencies(const Json& rule, const Json& value,
                                                            const Place& place) {
  for (const auto& [name, needed] : rule.as_object()) {
    if (Result out = spend(place, value.as_object().size() / 8)) return out;
    if (value.find(name) == nullptr) continue;
    if (!needed.is_array()) {
      if (Result found = check(needed, value, place)) return found;
      continue;
    }
    for (const Json& other : needed.as_array()) {
      if (Result out = spend(place, value.as_object().size() / 8)) return out;
      if (value.find(other.as_string()) == nullptr) {
        return problem(place, fmt::format("has the member {} and so needs the member {}", quoted_member(name),
                                          quoted_member(other.as_string())));
      }
    }
  }
  return std::nullopt;
}

}  // namespace stoker
