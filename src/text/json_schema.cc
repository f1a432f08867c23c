#include "text/json_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr int kDeepest = 64;
constexpr size_t kLongestValue = 80;

// What a keyword's value must look like.
enum class KeywordKind {
  kAnnotation,
  kType,
  kList,
  kNames,
  kSchema,
  kSchemas,
  kSchemaMap,
  kCount,
  kNumber,
  kFlag,
  kAny
};

struct Keyword {
  const char* name;
  KeywordKind kind;
};
constexpr Keyword kKeywords[] = {
    {"title", KeywordKind::kAnnotation},
    {"description", KeywordKind::kAnnotation},
    {"default", KeywordKind::kAnnotation},
    {"examples", KeywordKind::kAnnotation},
    {"example", KeywordKind::kAnnotation},
    {"format", KeywordKind::kAnnotation},
    {"deprecated", KeywordKind::kAnnotation},
    {"readOnly", KeywordKind::kAnnotation},
    {"writeOnly", KeywordKind::kAnnotation},
    {"$comment", KeywordKind::kAnnotation},
    {"$schema", KeywordKind::kAnnotation},
    {"$id", KeywordKind::kAnnotation},
    {"strict", KeywordKind::kAnnotation},
    {"type", KeywordKind::kType},
    {"enum", KeywordKind::kList},
    {"const", KeywordKind::kAny},
    {"properties", KeywordKind::kSchemaMap},
    {"required", KeywordKind::kNames},
    {"additionalProperties", KeywordKind::kSchema},
    {"minProperties", KeywordKind::kCount},
    {"maxProperties", KeywordKind::kCount},
    {"items", KeywordKind::kSchema},
    {"minItems", KeywordKind::kCount},
    {"maxItems", KeywordKind::kCount},
    {"uniqueItems", KeywordKind::kFlag},
    {"minimum", KeywordKind::kNumber},
    {"maximum", KeywordKind::kNumber},
    {"exclusiveMinimum", KeywordKind::kNumber},
    {"exclusiveMaximum", KeywordKind::kNumber},
    {"multipleOf", KeywordKind::kNumber},
    {"minLength", KeywordKind::kCount},
    {"maxLength", KeywordKind::kCount},
    {"allOf", KeywordKind::kSchemas},
    {"anyOf", KeywordKind::kSchemas},
    {"oneOf", KeywordKind::kSchemas},
    {"not", KeywordKind::kSchema},
};
constexpr const char* kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

const Keyword* find_keyword(const std::string& name) {
  for (const Keyword& keyword : kKeywords) {
    if (name == keyword.name) return &keyword;
  }
  return nullptr;
}

bool is_type_name(const Json& value) {
  return value.is_string() &&
         std::find(std::begin(kTypes), std::end(kTypes), value.as_string()) != std::end(kTypes);
}

bool all_of(const Json& list, bool (*holds)(const Json&)) {
  return list.is_array() && std::all_of(list.as_array().begin(), list.as_array().end(), holds);
}

// Checks a schema itself; throws Error(kInput) naming the place.
class SchemaChecker {
 public:
  explicit SchemaChecker(const std::string& what) : what_(what) {}

  void check(const Json& schema, const std::string& place, int depth) const {
    if (schema.is_bool()) return;
    if (!schema.is_object())
      throw bad(place, fmt::format("must be an object or a boolean, found {}", schema.type_name()));
    if (depth > kDeepest) throw bad(place, "is nested too deeply");
    for (const auto& [name, value] : schema.as_object()) {
      std::string here = place + "." + name;
      const Keyword* keyword = find_keyword(name);
      if (keyword == nullptr) throw bad(here, "is a keyword that Stoker does not check; leave it out");
      if (!fits(value, keyword->kind))
        throw bad(here, fmt::format("cannot be {}", value.dump().substr(0, kLongestValue)));
      check_inner(value, keyword->kind, here, depth + 1);
    }
  }

 private:
  Error bad(const std::string& place, const std::string& sentence) const {
    return input_error(fmt::format("The JSON Schema of {}: {} {}.", what_, place, sentence));
  }

  static bool fits(const Json& value, KeywordKind kind) {
    switch (kind) {
      case KeywordKind::kAnnotation:
      case KeywordKind::kAny:
      case KeywordKind::kSchema:  // checked by check()
        return true;
      case KeywordKind::kType:
        return is_type_name(value) || (all_of(value, is_type_name) && !value.as_array().empty());
      case KeywordKind::kList:
        return value.is_array();
      case KeywordKind::kNames:
        return all_of(value, [](const Json& name) { return name.is_string(); });
      case KeywordKind::kSchemas:
        return value.is_array() && !value.as_array().empty();
      case KeywordKind::kSchemaMap:
        return value.is_object();
      case KeywordKind::kCount:
        return value.is_integer() && value.as_double() >= 0;
      case KeywordKind::kNumber:
        return value.is_number();
      case KeywordKind::kFlag:
        return value.is_bool();
    }
    return false;
  }

  void check_inner(const Json& value, KeywordKind kind, const std::string& place, int depth) const {
    if (kind == KeywordKind::kSchema) check(value, place, depth);
    if (kind == KeywordKind::kSchemas) {
      for (size_t i = 0; i < value.as_array().size(); ++i) {
        check(value.as_array()[i], fmt::format("{}[{}]", place, i), depth);
      }
    }
    if (kind == KeywordKind::kSchemaMap) {
      for (const auto& [name, schema] : value.as_object()) check(schema, place + "." + name, depth);
    }
    if (place.ends_with(".multipleOf") && kind == KeywordKind::kNumber && !(value.as_double() > 0)) {
      throw bad(place, "must be above 0");
    }
  }

  const std::string& what_;
};

// JSON Schema's equality: 1 and 1.0 are equal, the order of members does not matter.
bool equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a == b || a.as_double() == b.as_double();
  if (a.is_array() && b.is_array()) {
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(), b.as_array().end(),
                      equal);
  }
  if (a.is_object() && b.is_object()) {
    if (a.as_object().size() != b.as_object().size()) return false;
    return std::all_of(a.as_object().begin(), a.as_object().end(), [&](const Json::Member& member) {
      const Json* other = b.find(member.first);
      return other != nullptr && equal(member.second, *other);
    });
  }
  return a == b;
}

// A string without its last bytes must not end inside a character.
std::string show(const Json& value) {
  std::string text = value.dump();
  if (text.size() > kLongestValue) text = to_valid_utf8(text.substr(0, kLongestValue)) + "...";
  return fmt::format("the {} {}", value.type_name(), text);
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "number") return value.is_number();
  if (type == "integer") {
    return value.is_integer() || (value.is_double() && std::trunc(value.as_double()) == value.as_double());
  }
  return type == value.type_name();
}

const char* with_article(const std::string& type) {
  for (const char* name : {"a boolean", "an integer", "a number", "a string", "an array", "an object"}) {
    if (std::string_view(name).ends_with(type)) return name;
  }
  return "null";
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(utf8_step(text).size);
  return count;
}

using Problem = std::optional<std::string>;

Problem check_value(const Json& schema, const Json& value, const std::string& place);

Problem check_type(const Json& type, const Json& value, const std::string& place) {
  std::vector<std::string> names;
  if (type.is_string()) {
    names.push_back(type.as_string());
  } else {
    for (const Json& name : type.as_array()) names.push_back(name.as_string());
  }
  std::vector<std::string> expected;
  for (const std::string& name : names) {
    if (has_type(value, name)) return std::nullopt;
    expected.push_back(with_article(name));
  }
  return fmt::format("{} must be {}, but is {}.", place, fmt::join(expected, " or "), show(value));
}

Problem check_enum(const Json& allowed, const Json& value, const std::string& place) {
  std::vector<std::string> choices;
  for (const Json& choice : allowed.as_array()) {
    if (equal(choice, value)) return std::nullopt;
    choices.push_back(choice.dump());
  }
  return fmt::format("{} must be one of {}, but is {}.", place, fmt::join(choices, ", "), show(value));
}

Problem check_number(const std::string& keyword, double bound, const Json& value, const std::string& place) {
  double number = value.as_double();
  auto problem = [&](const char* relation) {
    return fmt::format("{} must be {} {}, but is {}.", place, relation, bound, show(value));
  };
  if (keyword == "minimum" && number < bound) return problem("at least");
  if (keyword == "maximum" && number > bound) return problem("at most");
  if (keyword == "exclusiveMinimum" && number <= bound) return problem("above");
  if (keyword == "exclusiveMaximum" && number >= bound) return problem("below");
  if (keyword == "multipleOf" && std::abs(std::remainder(number / bound, 1.0)) > 1e-9) {
    return problem("a multiple of");
  }
  return std::nullopt;
}

Problem check_count(bool least, uint64_t bound, size_t count, const char* unit, const std::string& place) {
  if (least ? count >= bound : count <= bound) return std::nullopt;
  return fmt::format("{} must have at {} {} {}, but has {}.", place, least ? "least" : "most", bound, unit,
                     count);
}

// The members of `value` that `properties` does not name, under additionalProperties.
Problem check_additional(const Json& schema, const Json& rule, const Json& value, const std::string& place) {
  const Json* properties = schema.find("properties");
  for (const auto& [name, member] : value.as_object()) {
    if (properties != nullptr && properties->find(name) != nullptr) continue;
    if (rule == Json(false)) {
      std::vector<std::string> known;
      if (properties != nullptr) {
        for (const auto& property : properties->as_object()) known.push_back(property.first);
      }
      return fmt::format("{} has the unknown member {}; the known ones are: {}.", place,
                         Json(name.substr(0, kLongestValue)).dump(),
                         known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    if (Problem problem = check_value(rule, member, place + "." + name)) return problem;
  }
  return std::nullopt;
}

Problem check_object(const Json& schema, const std::string& keyword, const Json& rule, const Json& value,
                     const std::string& place) {
  if (keyword == "required") {
    for (const Json& name : rule.as_array()) {
      if (value.find(name.as_string()) == nullptr) {
        return fmt::format("{} lacks the required member {}.", place, name.dump());
      }
    }
  }
  if (keyword == "properties") {
    for (const auto& [name, property] : rule.as_object()) {
      const Json* member = value.find(name);
      if (member == nullptr) continue;
      if (Problem problem = check_value(property, *member, place + "." + name)) return problem;
    }
  }
  if (keyword == "additionalProperties") return check_additional(schema, rule, value, place);
  if (keyword == "minProperties" || keyword == "maxProperties") {
    return check_count(keyword == "minProperties", rule.as_uint(), value.as_object().size(), "members",
                       place);
  }
  return std::nullopt;
}

Problem check_array(const std::string& keyword, const Json& rule, const Json& value,
                    const std::string& place) {
  const Json::Array& elements = value.as_array();
  if (keyword == "items") {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (Problem problem = check_value(rule, elements[i], fmt::format("{}[{}]", place, i))) return problem;
    }
  }
  if (keyword == "uniqueItems" && rule == Json(true)) {
    for (size_t i = 0; i < elements.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (equal(elements[i], elements[j])) {
          return fmt::format("{} must have no element twice, but {} and {} are equal.", place, j, i);
        }
      }
    }
  }
  if (keyword == "minItems" || keyword == "maxItems") {
    return check_count(keyword == "minItems", rule.as_uint(), elements.size(), "elements", place);
  }
  return std::nullopt;
}

Problem check_combination(const std::string& keyword, const Json& rule, const Json& value,
                          const std::string& place) {
  if (keyword == "not") {
    if (check_value(rule, value, place)) return std::nullopt;
    return fmt::format("{} must not be {}.", place, show(value));
  }
  size_t matches = 0;
  Problem first;
  for (const Json& schema : rule.as_array()) {
    Problem problem = check_value(schema, value, place);
    if (!problem) {
      ++matches;
    } else if (!first) {
      first = problem;
    }
  }
  if (keyword == "allOf") return first;
  if (keyword == "anyOf") {
    if (matches > 0) return std::nullopt;
    return rule.as_array().size() == 1 ? first
                                       : fmt::format("{} fits none of its {} allowed forms; of the first: {}",
                                                     place, rule.as_array().size(), *first);
  }
  if (matches == 1) return std::nullopt;
  return fmt::format("{} must fit exactly one of its {} allowed forms, but fits {}.", place,
                     rule.as_array().size(), matches);
}

Problem check_keyword(const Json& schema, const std::string& keyword, const Json& rule, const Json& value,
                      const std::string& place) {
  if (keyword == "type") return check_type(rule, value, place);
  if (keyword == "enum") return check_enum(rule, value, place);
  if (keyword == "const") return check_enum(Json(Json::Array{rule}), value, place);
  if (keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf" || keyword == "not") {
    return check_combination(keyword, rule, value, place);
  }
  if (value.is_object()) return check_object(schema, keyword, rule, value, place);
  if (value.is_array()) return check_array(keyword, rule, value, place);
  if (value.is_string() && (keyword == "minLength" || keyword == "maxLength")) {
    return check_count(keyword == "minLength", rule.as_uint(), character_count(value.as_string()),
                       "characters", place);
  }
  const Keyword* known = find_keyword(keyword);
  if (value.is_number() && known->kind == KeywordKind::kNumber) {
    return check_number(keyword, rule.as_double(), value, place);
  }
  return std::nullopt;
}

Problem check_value(const Json& schema, const Json& value, const std::string& place) {
  if (schema == Json(true) || schema.is_null()) return std::nullopt;
  if (schema == Json(false)) return fmt::format("{} is not allowed.", place);
  for (const auto& [keyword, rule] : schema.as_object()) {
    if (Problem problem = check_keyword(schema, keyword, rule, value, place)) return problem;
  }
  return std::nullopt;
}

}  // namespace

JsonSchema::JsonSchema(Json schema, const std::string& what) : schema_(std::move(schema)) {
  if (!schema_.is_null()) SchemaChecker(what).check(schema_, "schema", 0);
}

std::optional<std::string> JsonSchema::validate(const Json& value, const std::string& root) const {
  return check_value(schema_, value, root);
}

}  // namespace stoker
