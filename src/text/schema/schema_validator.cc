#include "text/schema/schema_validator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/json_string.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr int kDeepestCheck = 192;
constexpr uint64_t kMostCheckSteps = 4'000'000;
constexpr size_t kLongestShownValue = 80;
constexpr size_t kLongestShownList = 400;
constexpr size_t kLongestSentence = 1000;

// `text` cut to `most` bytes without cutting a character.
std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string show_value(const Json& value) {
  std::string text;
  if (value.is_string()) {
    append_json_string(text, std::string_view(value.as_string()).substr(0, 2 * kLongestShownValue));
  } else {
    text = value.dump();
  }
  return fmt::format("the {} {}", value.type_name(), shortened(text, kLongestShownValue));
}

std::string show_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    if (text.size() > kLongestShownList) return text + ", ...";
    text += (text.empty() ? "" : ", ") + shortened(item, kLongestShownValue);
  }
  return text;
}

bool is_integral(const Json& value) {
  return value.is_integer() || (value.is_double() && std::trunc(value.as_double()) == value.as_double());
}

bool has_schema_type(const Json& value, std::string_view type) {
  if (type == "number") return value.is_number();
  if (type == "integer") return is_integral(value);
  return type == value.type_name();
}

const char* with_article(const std::string& type) {
  for (const char* name : {"a boolean", "an integer", "a number", "a string", "an array", "an object"}) {
    if (std::string_view(name).ends_with(type)) return name;
  }
  return "null";
}

// A number without rounding: 64 bits of mantissa hold every integer and double that Json holds.
long double exact(const Json& number) {
  if (number.is_double()) return number.as_double();
  return number.as_double() > 0 ? static_cast<long double>(number.as_uint())
                                : static_cast<long double>(number.as_int());
}

// Whether `number` is a multiple of `step`, both meant as the decimals they were written as.
bool is_multiple(const Json& number, const Json& step) {
  long double value = std::abs(exact(number)), of = exact(step);
  long double rest = std::fmod(value, of);
  long double tolerance =
      is_integral(number) && is_integral(step) ? 0 : std::min<long double>(4 * 0x1p-52L * value, of * 1e-6L);
  return rest <= tolerance || of - rest <= tolerance;
}

// A text that is equal for values that JSON Schema calls equal: 1 and 1.0 are, the order of members is not
// seen.
void append_canonical(std::string& out, const Json& value) {
  if (value.is_double() && is_integral(value) && std::abs(value.as_double()) < 0x1p63) {
    out += std::to_string(static_cast<int64_t>(value.as_double()));
  } else if (value.is_array()) {
    out += '[';
    for (const Json& element : value.as_array()) {
      append_canonical(out, element);
      out += ',';
    }
    out += ']';
  } else if (value.is_object()) {
    std::map<std::string_view, const Json*> members;
    for (const auto& [name, member] : value.as_object()) members[name] = &member;
    out += '{';
    for (const auto& [name, member] : members) {
      append_json_string(out, name, InvalidUtf8::kKeep);
      append_canonical(out, *member);
      out += ',';
    }
    out += '}';
  } else {
    out += value.dump();
  }
}

std::string canonical(const Json& value) {
  std::string text;
  append_canonical(text, value);
  return text;
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(utf8_step(text).size);
  return count;
}

bool is_true(const Json* flag) { return flag != nullptr && *flag == Json(true); }

}  // namespace

std::string SchemaValidator::text_of(const Place& place) const {
  if (place.parent == nullptr) return root_;
  std::string before = text_of(*place.parent);
  if (place.name.data() == nullptr) return fmt::format("{}[{}]", before, place.index);
  return before + "." + shortened(place.name, kLongestShownValue);
}

SchemaValidator::Result SchemaValidator::problem(const Place& place, const std::string& what) const {
  return Problem{shortened(fmt::format("{} {}.", text_of(place), what), kLongestSentence), place.depth};
}

SchemaValidator::Result SchemaValidator::spend(const Place& place, size_t steps) {
  steps_ += 1 + steps;
  if (steps_ <= kMostCheckSteps) return std::nullopt;
  out_of_steps_ = true;
  return problem(place, "takes too many steps to check against the tool's schema; give a smaller value");
}

std::optional<std::string> SchemaValidator::validate(const Json& value) {
  Result found = check(compiled_.root, value, Place{});
  if (!found) return std::nullopt;
  return std::move(found->sentence);
}

SchemaValidator::Result SchemaValidator::check(const Json& schema, const Json& value, const Place& place) {
  if (schema.is_bool()) {
    return schema.as_bool() ? std::nullopt : problem(place, "is not allowed");
  }
  if (value.is_null() && is_true(schema.find("nullable"))) return std::nullopt;
  if (depth_ >= kDeepestCheck) return problem(place, "is nested too deeply to be checked");
  ++depth_;
  Result found = spend(place, schema.as_object().size());
  for (const auto& [keyword, rule] : schema.as_object()) {
    if (found) break;
    found = check_keyword(schema, keyword, rule, value, place);
  }
  --depth_;
  return found;
}

SchemaValidator::Result SchemaValidator::check_keyword(const Json& schema, std::string_view keyword,
                                                       const Json& rule, const Json& value,
                                                       const Place& place) {
  if (keyword == "type") return check_type(rule, value, place);
  if (keyword == "enum") return check_choices(rule.as_array(), value, place);
  if (keyword == "const") return check_choices({rule}, value, place);
  if (keyword == "$ref") return check(*compiled_.references.find(rule.as_string())->second, value, place);
  if (keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf") {
    return check_forms(keyword, rule, value, place);
  }
  if (keyword == "not") {
    if (check(rule, value, place)) return out_of_steps_ ? spend(place, 0) : std::nullopt;
    return problem(place, fmt::format("must not be {}", show_value(value)));
  }
  if (keyword == "if") return check_condition(schema, rule, value, place);
  if (value.is_object()) return check_object(schema, keyword, rule, value, place);
  if (value.is_array()) return check_array(schema, keyword, rule, value, place);
  if (value.is_string()) return check_string(keyword, rule, value.as_string(), place);
  if (value.is_number() && (rule.is_number() || rule.is_bool())) {
    return check_number(schema, keyword, rule, value, place);
  }
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::check_type(const Json& type, const Json& value,
                                                    const Place& place) const {
  const std::span<const Json> names = type.is_string() ? std::span(&type, 1) : std::span(type.as_array());
  for (const Json& name : names) {
    if (has_schema_type(value, name.as_string())) return std::nullopt;
  }
  std::vector<std::string> expected;
  for (const Json& name : names) expected.push_back(with_article(name.as_string()));
  return problem(place, fmt::format("must be {}, but is {}", fmt::join(expected, " or "), show_value(value)));
}

SchemaValidator::Result SchemaValidator::check_choices(const Json::Array& choices, const Json& value,
                                                       const Place& place) {
  std::string wanted = canonical(value);
  std::vector<std::string> shown;
  for (const Json& choice : choices) {
    std::string text = canonical(choice);
    if (Result found = spend(place, text.size() / 16)) return found;
    if (text == wanted) return std::nullopt;
    if (shown.size() < kLongestShownList) shown.push_back(choice.dump());
  }
  const char* relation = choices.size() == 1 ? "must be" : "must be one of";
  return problem(place, fmt::format("{} {}, but is {}", relation, show_list(shown), show_value(value)));
}

SchemaValidator::Result SchemaValidator::check_forms(std::string_view keyword, const Json& forms,
                                                     const Json& value, const Place& place) {
  size_t matching = 0;
  Result nearest;
  for (const Json& form : forms.as_array()) {
    Result found = check(form, value, place);
    if (out_of_steps_) return found;
    if (!found) {
      ++matching;
      if (keyword == "anyOf") return std::nullopt;
    } else if (keyword == "allOf") {
      return found;
    } else if (!nearest || found->depth > nearest->depth) {
      nearest = std::move(found);
    }
  }
  size_t count = forms.as_array().size();
  if (keyword == "allOf" || matching == 1) return std::nullopt;
  if (matching > 1) {
    return problem(place,
                   fmt::format("must fit exactly one of its {} allowed forms, but fits {}", count, matching));
  }
  if (count == 1) return nearest;
  nearest->sentence = shortened(fmt::format("{} fits none of its {} allowed forms; of the nearest: {}",
                                            text_of(place), count, nearest->sentence),
                                kLongestSentence);
  return nearest;
}

SchemaValidator::Result SchemaValidator::check_condition(const Json& schema, const Json& condition,
                                                         const Json& value, const Place& place) {
  bool holds = !check(condition, value, place);
  if (out_of_steps_) return spend(place, 0);
  const Json* consequence = schema.find(holds ? "then" : "else");
  return consequence == nullptr ? std::nullopt : check(*consequence, value, place);
}

SchemaValidator::Result SchemaValidator::check_count(bool least, const Json& bound, size_t count,
                                                     const char* unit, const Place& place) const {
  auto limit = static_cast<uint64_t>(bound.as_double());
  if (least ? count >= limit : count <= limit) return std::nullopt;
  return problem(
      place, fmt::format("must have at {} {} {}, but has {}", least ? "least" : "most", limit, unit, count));
}

SchemaValidator::Result SchemaValidator::check_number(const Json& schema, std::string_view keyword,
                                                      const Json& rule, const Json& value,
                                                      const Place& place) const {
  auto outside = [&](const char* relation) {
    return problem(place, fmt::format("must be {} {}, but is {}", relation, rule.dump(), show_value(value)));
  };
  if (rule.is_bool()) return std::nullopt;
  long double number = exact(value), bound = exact(rule);
  if (keyword == "minimum") {
    if (is_true(schema.find("exclusiveMinimum")) && number <= bound) return outside("above");
    if (number < bound) return outside("at least");
  }
  if (keyword == "maximum") {
    if (is_true(schema.find("exclusiveMaximum")) && number >= bound) return outside("below");
    if (number > bound) return outside("at most");
  }
  if (keyword == "exclusiveMinimum" && number <= bound) return outside("above");
  if (keyword == "exclusiveMaximum" && number >= bound) return outside("below");
  if (keyword == "multipleOf" && !is_multiple(value, rule)) return outside("a multiple of");
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::matches(const std::string& pattern, std::string_view text,
                                                 const Place& place, bool& found) {
  if (Result out = spend(place, text.size() / 16 + 16)) return out;
  SchemaPattern::Found result = compiled_.patterns.find(pattern)->second.find(text);
  found = result == SchemaPattern::Found::kYes;
  if (result != SchemaPattern::Found::kTooMuchWork) return std::nullopt;
  steps_ += kMostCheckSteps / 16;  // so that few such texts end the check
  return problem(place, "takes too much work to match against its pattern; give a shorter text");
}

SchemaValidator::Result SchemaValidator::check_string(std::string_view keyword, const Json& rule,
                                                      const std::string& text, const Place& place) {
  if (keyword == "minLength" || keyword == "maxLength") {
    return check_count(keyword == "minLength", rule, character_count(text), "characters", place);
  }
  if (keyword != "pattern") return std::nullopt;
  bool found = false;
  if (Result out = matches(rule.as_string(), text, place, found)) return out;
  if (found) return std::nullopt;
  return problem(place, fmt::format("must match the pattern {}, but is {}",
                                    shortened(rule.as_string(), kLongestShownList), show_value(Json(text))));
}

SchemaValidator::Result SchemaValidator::check_array(const Json& schema, std::string_view keyword,
                                                     const Json& rule, const Json& value,
                                                     const Place& place) {
  size_t size = value.as_array().size();
  if (keyword == "minItems" || keyword == "maxItems") {
    return check_count(keyword == "minItems", rule, size, "elements", place);
  }
  if (keyword == "uniqueItems") return is_true(&rule) ? check_unique(value, place) : std::nullopt;
  if (keyword == "contains") return check_contains(schema, rule, value, place);
  const Json* items = schema.find("items");
  bool list = items != nullptr && items->is_array();  // draft 7: what 2020-12 calls prefixItems
  if (keyword == "prefixItems" || (keyword == "items" && list)) {
    for (size_t i = 0; i < std::min(size, rule.as_array().size()); ++i) {
      Place inner{&place, {}, i, place.depth + 1};
      if (Result found = check(rule.as_array()[i], value.as_array()[i], inner)) return found;
    }
    return std::nullopt;
  }
  if (keyword == "items") {
    const Json* prefix = schema.find("prefixItems");
    return check_items(rule, prefix == nullptr ? 0 : prefix->as_array().size(), value, place);
  }
  if (keyword == "additionalItems" && list) return check_items(rule, items->as_array().size(), value, place);
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::check_items(const Json& rule, size_t begin, const Json& value,
                                                     const Place& place) {
  for (size_t i = begin; i < value.as_array().size(); ++i) {
    Place inner{&place, {}, i, place.depth + 1};
    if (Result found = check(rule, value.as_array()[i], inner)) return found;
  }
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::check_contains(const Json& schema, const Json& rule,
                                                        const Json& value, const Place& place) {
  const Json* least = schema.find("minContains");
  const Json* most = schema.find("maxContains");
  double minimum = least == nullptr ? 1 : least->as_double();
  size_t fitting = 0;
  Result first;
  for (size_t i = 0; i < value.as_array().size(); ++i) {
    Place inner{&place, {}, i, place.depth + 1};
    Result found = check(rule, value.as_array()[i], inner);
    if (out_of_steps_) return found;
    if (!found) ++fitting;
    if (found && !first) first = std::move(found);
  }
  auto count = static_cast<double>(fitting);
  if (count < minimum) {
    return problem(place, fmt::format("must contain at least {} fitting elements, but has {}{}", minimum,
                                      fitting, first ? ": " + shortened(first->sentence, 400) : ""));
  }
  if (most != nullptr && count > most->as_double()) {
    return problem(place, fmt::format("must contain at most {} elements of a kind, but has {}",
                                      most->as_double(), fitting));
  }
  return std::nullopt;
}

SchemaValidator::Result SchemaValidator::check_unique(const Json& value, const Place& place) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < value.as_array().size(); ++i) {
    std::string text = canonical(value.as_array()[i]);
    if (Result out = spend(place, text.size() / 16)) return out;
    auto [at, fresh] = seen.emplace(std::move(text), i);
    if (!fresh) {
      return problem(place,
                     fmt::format("must have no element twice, but {} and {} are equal", i, at->second));
    }
  }
  return std::nullopt;
}

}  // namespace stoker
