#include "base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/file.h"

namespace stoker {
namespace {

std::string toml_text(bool value) { return value ? "true" : "false"; }
std::string toml_text(int value) { return std::to_string(value); }
std::string toml_text(int64_t value) { return std::to_string(value); }
std::string toml_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}
std::string toml_text(const std::string& value) {
  std::string text = "\"";
  for (unsigned char c : value) {
    if (c == '"' || c == '\\') {
      text.push_back('\\');
      text.push_back(static_cast<char>(c));
    } else if (c < 0x20 || c == 0x7F) {
      text += fmt::format("\\u{:04x}", c);
    } else {
      text.push_back(static_cast<char>(c));
    }
  }
  return text + "\"";
}
template <typename T>
std::string toml_text(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + toml_text(value);
  return text + "]";
}

std::string target_text(const ConfigField::Target& target) {
  return std::visit([](const auto* value) { return toml_text(*value); }, target);
}

const char* type_name(bool*) { return "true or false"; }
const char* type_name(int*) { return "an integer"; }
const char* type_name(int64_t*) { return "an integer"; }
const char* type_name(double*) { return "a number"; }
const char* type_name(std::string*) { return "a string"; }
const char* type_name(std::vector<std::string>*) { return "a list of strings"; }
const char* type_name(std::vector<double>*) { return "a list of numbers"; }

std::string bound_text(double value) {
  return std::trunc(value) == value && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{}", value);
}

// "at least 0 and at most 1", "one of a, b"; empty when everything is allowed.
std::string allowed_text(const Constraint& constraint) {
  std::string text;
  if (!constraint.choices.empty()) return fmt::format("one of {}", fmt::join(constraint.choices, ", "));
  if (std::isfinite(constraint.minimum)) {
    text = fmt::format("{} {}", constraint.minimum_excluded ? "above" : "at least",
                       bound_text(constraint.minimum));
  }
  if (std::isfinite(constraint.maximum)) {
    text += fmt::format("{}at most {}", text.empty() ? "" : " and ", bound_text(constraint.maximum));
  }
  if (constraint.infinity_allowed) text += text.empty() ? "inf allowed" : ", or inf";
  return text;
}

// What is wrong with a value under a constraint; empty when it is allowed. "must be at least 0, but is -1".
std::string violation(double value, const Constraint& constraint) {
  if (std::isnan(value) || (std::isinf(value) && !(constraint.infinity_allowed && value > 0))) {
    return fmt::format("must be a finite number, but is {}", toml_text(value));
  }
  bool below = constraint.minimum_excluded ? value <= constraint.minimum : value < constraint.minimum;
  if (!std::isinf(value) && (below || value > constraint.maximum)) {
    return fmt::format("must be {}, but is {}", allowed_text(constraint), bound_text(value));
  }
  return "";
}
std::string violation(bool, const Constraint&) { return ""; }
std::string violation(int value, const Constraint& constraint) {
  return violation(static_cast<double>(value), constraint);
}
std::string violation(int64_t value, const Constraint& constraint) {
  return violation(static_cast<double>(value), constraint);
}
std::string violation(const std::string& value, const Constraint& constraint) {
  const auto& choices = constraint.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return "";
  std::string near = nearest_name(value, choices);
  return fmt::format("must be {}, but is \"{}\"{}", allowed_text(constraint), value,
                     near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
}
template <typename T>
std::string violation(const std::vector<T>& values, const Constraint& constraint) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::string text = violation(values[i], constraint);
    if (!text.empty()) return fmt::format("(element {}) {}", i + 1, text);
  }
  return "";
}

// The value of a node as T, or nothing when its type differs. An integer serves as a number, never the
// reverse.
template <typename T>
std::optional<T> node_value(const toml::node& node) {
  if constexpr (std::is_same_v<T, bool>) {
    return node.is_boolean() ? node.value_exact<bool>() : std::nullopt;
  } else if constexpr (std::is_same_v<T, int>) {
    auto value = node.value_exact<int64_t>();
    if (!value || *value < INT32_MIN || *value > INT32_MAX) return std::nullopt;
    return static_cast<int>(*value);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return node.value_exact<int64_t>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (auto integer = node.value_exact<int64_t>()) return static_cast<double>(*integer);
    return node.value_exact<double>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return node.value_exact<std::string>();
  } else {
    const toml::array* array = node.as_array();
    if (array == nullptr) return std::nullopt;
    T values;
    for (const toml::node& element : *array) {
      auto value = node_value<typename T::value_type>(element);
      if (!value) return std::nullopt;
      values.push_back(std::move(*value));
    }
    return values;
  }
}

std::string found_text(const toml::node& node) {
  std::string text = node.visit([](const auto& value) {
    if constexpr (toml::is_table<decltype(value)>) {
      return std::string("a section");
    } else if constexpr (toml::is_array<decltype(value)>) {
      return fmt::format("a list of {}", value.size());
    } else if constexpr (toml::is_string<decltype(value)>) {
      return fmt::format("the string {}", toml_text(value.get()));
    } else if constexpr (toml::is_integer<decltype(value)> || toml::is_floating_point<decltype(value)>) {
      return fmt::format("the number {}", toml_text(value.get()));
    } else if constexpr (toml::is_boolean<decltype(value)>) {
      return toml_text(value.get());
    } else {
      return std::string("a date or time");
    }
  });
  return text;
}

// Where a value stands, for sentences and origins.
using Place = std::string;

Place line_place(std::string_view file, const toml::source_region& source) {
  return fmt::format("{}, line {}", file, source.begin.line);
}

void assign(ConfigField& field, const toml::node& node, const Place& place) {
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        std::optional<T> value = node_value<T>(node);
        if (!value) {
          throw input_error(fmt::format("{}: {} must be {}, but is {}.", place, field.key, type_name(target),
                                        found_text(node)));
        }
        std::string wrong = violation(*value, field.constraint);
        if (!wrong.empty()) throw input_error(fmt::format("{}: {} {}.", place, field.key, wrong));
        *target = std::move(*value);
      },
      field.target);
  field.origin = place;
}

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }  // npos + 1 == 0

ConfigField* find_field(ConfigFields& fields, std::string_view key) {
  for (ConfigField& field : fields.fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

bool is_section(const ConfigFields& fields, std::string_view key) {
  return std::any_of(fields.sections.begin(), fields.sections.end(),
                     [&](const ConfigFields::Section& section) { return section.key == key; });
}

std::string_view section_of(std::string_view key) {
  size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

// "the keys of [rollout] are max_staleness, tool, ..."; for a key of the top level, the sections too.
std::string list_beside(const ConfigFields& fields, const std::string& key) {
  std::string_view section = section_of(key);
  if (!is_section(fields, section)) section = "";
  std::vector<std::string_view> names;
  for (const ConfigField& field : fields.fields) {
    if (section_of(field.key) == section) names.push_back(last_part(field.key));
  }
  for (const ConfigFields::Section& inner : fields.sections) {
    if (!inner.key.empty() && section_of(inner.key) == section) names.push_back(last_part(inner.key));
  }
  std::string place = section.empty() ? "the top level" : fmt::format("[{}]", section);
  return fmt::format("; the keys of {} are {}", place, fmt::join(names, ", "));
}

// A key that the list of fields lacks: names the key that owns the value elsewhere, or the nearest one.
Error unknown_key(const ConfigFields& fields, const std::string& key, const Place& place, bool table) {
  std::vector<std::string> known;
  std::vector<std::string> owners;
  for (const ConfigField& field : fields.fields) {
    known.push_back(field.key);
    if (last_part(field.key) == last_part(key)) owners.push_back(field.key);
  }
  for (const ConfigFields::Section& section : fields.sections) {
    if (!section.key.empty()) known.push_back(section.key);
  }
  std::string near = owners.size() == 1 ? owners.front() : nearest_name(key, known);
  if (near.empty()) {  // the right name may stand in another section
    std::vector<std::string> leaves;
    for (const std::string& name : known) leaves.emplace_back(last_part(name));
    std::string leaf = nearest_name(last_part(key), leaves);
    auto at = std::find(leaves.begin(), leaves.end(), leaf);
    if (!leaf.empty()) near = known[static_cast<size_t>(at - leaves.begin())];
  }
  std::string remedy =
      near.empty() ? list_beside(fields, key) + "." : fmt::format("; did you mean {}?", near);
  return input_error(fmt::format("{}: there is no {} {}{}", place, table ? "section" : "key", key, remedy));
}

void read_table(ConfigFields& fields, const toml::table& table, const std::string& prefix,
                std::string_view file) {
  for (const auto& [name, node] : table) {
    std::string key = prefix.empty() ? std::string(name.str()) : fmt::format("{}.{}", prefix, name.str());
    Place place = line_place(file, name.source());
    if (ConfigField* field = find_field(fields, key)) {
      assign(*field, node, place);
    } else if (is_section(fields, key)) {
      const toml::table* section = node.as_table();
      if (section == nullptr) {
        throw input_error(fmt::format("{}: {} is a section, but here it is {}; write [{}] above its keys.",
                                      place, key, found_text(node), key));
      }
      read_table(fields, *section, key, file);
    } else {
      throw unknown_key(fields, key, place, node.is_table());
    }
  }
}

toml::table parse_toml(std::string_view text, std::string_view name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& failure) {
    std::string_view what = failure.description();
    throw input_error(
        fmt::format("{}: this is not valid TOML: {}.", line_place(name, failure.source()), what));
  }
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(cost[0].begin(), cost[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    cost[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::string markdown_cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

}  // namespace

Constraint at_least(double minimum) { return {.minimum = minimum}; }
Constraint above(double minimum) { return {.minimum = minimum, .minimum_excluded = true}; }
Constraint between(double minimum, double maximum) { return {.minimum = minimum, .maximum = maximum}; }
Constraint above_or_infinite(double minimum) {
  return {.minimum = minimum, .minimum_excluded = true, .infinity_allowed = true};
}
Constraint one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

void ConfigFields::add(std::string_view name, ConfigField::Target target, std::string_view documentation,
                       Constraint constraint) {
  std::string key = prefix_ + std::string(name);
  if (find_field(*this, key) != nullptr)
    throw internal_error(fmt::format("The key {} is listed twice.", key));
  if (sections.empty()) sections.push_back({"", ""});
  fields.push_back({key, target, std::string(documentation), std::move(constraint), target_text(target)});
}

std::string ConfigFields::enter(std::string_view name, std::string_view documentation) {
  std::string key = prefix_ + std::string(name);
  if (is_section(*this, key)) throw internal_error(fmt::format("The section {} is listed twice.", key));
  sections.push_back({key, std::string(documentation)});
  return std::exchange(prefix_, key + ".");
}

void ConfigReader::check_defaults() const {
  for (const ConfigField& field : fields_.fields) {
    std::string wrong =
        std::visit([&](const auto* value) { return violation(*value, field.constraint); }, field.target);
    if (!wrong.empty()) throw internal_error(fmt::format("The default of {} {}.", field.key, wrong));
  }
}

void ConfigReader::read_file(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = size_t{1} << 24;
  read_text(stoker::read_file(path, kMaxBytes), path.string());
}

void ConfigReader::read_text(std::string_view text, std::string_view name) {
  read_table(fields_, parse_toml(text, name), "", name);
}

void ConfigReader::set(std::string_view assignment) {
  const Place place = "command line";
  size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw input_error(fmt::format("{}: \"{}\" is not of the form key=value.", place, assignment));
  }
  std::string key(assignment.substr(0, equals));
  std::string value(assignment.substr(equals + 1));
  ConfigField* field = find_field(fields_, key);
  if (field == nullptr) {
    if (is_section(fields_, key)) {
      throw input_error(
          fmt::format("{}: {} is a section; name one of its keys, as {}.key=value.", place, key, key));
    }
    throw unknown_key(fields_, key, place, false);
  }
  if (std::holds_alternative<std::string*>(field->target) && !value.starts_with('"') &&
      !value.starts_with('\'')) {
    value = toml_text(value);
  }
  toml::table table;
  try {
    table = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    table.clear();
  }
  const toml::node* node = table.get("value");
  if (node == nullptr || table.size() != 1) {
    throw input_error(fmt::format("{}: {} must be {}, but is \"{}\".", place, key,
                                  std::visit([](auto* target) { return type_name(target); }, field->target),
                                  value));
  }
  assign(*field, *node, place);
}

std::string ConfigReader::dump() const {
  std::string text;
  for (const ConfigFields::Section& section : fields_.sections) {
    std::string lines;
    for (const ConfigField& field : fields_.fields) {
      if (section_of(field.key) != section.key) continue;
      lines += fmt::format("{} = {}  # {}\n", last_part(field.key), target_text(field.target), field.origin);
    }
    if (lines.empty()) continue;
    if (!section.key.empty()) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.key);
    text += lines;
  }
  return text;
}

std::string ConfigReader::documentation() const {
  std::string text;
  for (const ConfigFields::Section& section : fields_.sections) {
    std::string rows;
    for (const ConfigField& field : fields_.fields) {
      if (section_of(field.key) != section.key) continue;
      std::string type = std::visit([](auto* target) { return type_name(target); }, field.target);
      std::string allowed = allowed_text(field.constraint);
      rows += fmt::format("| `{}` | {}{} | `{}` | {} |\n", field.key, type,
                          allowed.empty() ? "" : ", " + markdown_cell(allowed),
                          markdown_cell(field.default_text), markdown_cell(field.documentation));
    }
    if (rows.empty()) continue;
    if (!section.key.empty()) {
      text +=
          fmt::format("{}## [{}]\n\n{}\n\n", text.empty() ? "" : "\n", section.key, section.documentation);
    }
    text += "| key | value | default | meaning |\n| --- | --- | --- | --- |\n" + rows;
  }
  return text;
}

std::string ConfigReader::describe(std::string_view key) const {
  for (const ConfigField& field : fields_.fields) {
    if (field.key == key) return fmt::format("{} ({})", key, field.origin);
  }
  throw internal_error(fmt::format("The configuration has no key {}.", key));
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest;
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace stoker
