#include "acceptance_table.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"

namespace stoker {
namespace {

// One table of the file, with the place for errors; remembers which keys were asked for.
class Section {
 public:
  Section(const toml::table& table, std::string file)
      : table_(table),
        place_(fmt::format("{}, line {}", file, table.source().begin.line)),
        file_(std::move(file)) {}

  std::string text(const char* key, bool required = true) {
    const toml::node* node = find(key, required);
    if (node == nullptr) return "";
    auto value = node->value_exact<std::string>();
    if (!value) throw wrong(key, "a string");
    return *value;
  }
  double number(const char* key, double otherwise) {
    const toml::node* node = find(key, false);
    if (node == nullptr) return otherwise;
    auto value = node->value<double>();
    if (!value || !std::isfinite(*value) || *value <= 0) throw wrong(key, "a number above 0");
    return *value;
  }
  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> values;
    const toml::node* node = find(key, false);
    if (node == nullptr) return values;
    if (!node->is_array()) throw wrong(key, "a list of strings");
    for (const toml::node& element : *node->as_array()) {
      auto value = element.value_exact<std::string>();
      if (!value) throw wrong(key, "a list of strings");
      values.push_back(*value);
    }
    return values;
  }
  std::vector<Section> sections(const char* key) {
    std::vector<Section> result;
    const toml::node* node = find(key, true);
    const toml::array* array = node->as_array();
    if (array == nullptr) throw wrong(key, "a list of tables");
    for (const toml::node& element : *array) {
      if (!element.is_table()) throw wrong(key, "a list of tables");
      result.emplace_back(*element.as_table(), file_);
    }
    return result;
  }
  // To be called when all keys have been asked for.
  void refuse_others() const {
    for (const auto& [key, node] : table_) {
      if (!known_.contains(std::string(key.str()))) {
        throw input_error(
            fmt::format("{}, line {}: there is no key {} here.", file_, node.source().begin.line, key.str()));
      }
    }
  }
  const std::string& place() const { return place_; }

 private:
  const toml::node* find(const char* key, bool required) {
    known_.insert(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr && required)
      throw input_error(fmt::format("{}: the key {} is missing.", place_, key));
    return node;
  }
  Error wrong(const char* key, const char* type) const {
    return input_error(fmt::format("{}: {} must be {}.", place_, key, type));
  }

  const toml::table& table_;
  std::string place_;
  std::string file_;
  std::set<std::string> known_;
};

Figure read_figure(Section& section) {
  Figure figure;
  figure.name = section.text("name");
  figure.value = section.text("value");
  figure.minus = section.text("minus", false);
  try {
    figure.bar = parse_bar(section.text("bar"));
  } catch (const Error& error) {
    throw input_error(fmt::format("{}: {}", section.place(), error.what()));
  }
  section.refuse_others();
  return figure;
}

Measurement read_measurement(Section& section) {
  Measurement measurement;
  measurement.name = section.text("name");
  measurement.command = section.text("command");
  measurement.limit_seconds = section.number("limit_seconds", measurement.limit_seconds);
  measurement.paths = section.texts("paths");
  for (Section& figure : section.sections("figure")) measurement.figures.push_back(read_figure(figure));
  section.refuse_others();
  return measurement;
}

// Names become names of files.
void check_name(const std::string& name, const std::string& place, std::set<std::string>& seen) {
  bool good =
      !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  if (!good) throw input_error(fmt::format("{}: the name \"{}\" may hold only a-z, 0-9 and _.", place, name));
  if (!seen.insert(name).second)
    throw input_error(fmt::format("{}: the name {} is used twice.", place, name));
}

}  // namespace

bool Bar::holds(double value) const {
  if (!std::isfinite(value)) return false;
  switch (comparison) {
    case Comparison::kAtLeast:
      return value >= bound;
    case Comparison::kAbove:
      return value > bound;
    case Comparison::kAtMost:
      return value <= bound;
    case Comparison::kBelow:
      return value < bound;
    case Comparison::kEqual:
      return value == bound;
  }
  return false;
}

Bar parse_bar(std::string_view text) {
  constexpr std::pair<std::string_view, Bar::Comparison> kSigns[] = {
      {">=", Bar::Comparison::kAtLeast}, {"<=", Bar::Comparison::kAtMost}, {"==", Bar::Comparison::kEqual},
      {">", Bar::Comparison::kAbove},    {"<", Bar::Comparison::kBelow},
  };
  for (const auto& [sign, comparison] : kSigns) {
    if (!text.starts_with(sign)) continue;
    std::string_view digits = text.substr(sign.size());
    digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
    double bound = 0;
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), bound);
    if (code != std::errc() || end != digits.data() + digits.size() || !std::isfinite(bound)) break;
    return {comparison, bound, std::string(text)};
  }
  throw input_error(fmt::format("\"{}\" is no bar; write a comparison with a number, as \">= 0.9\".", text));
}

AcceptanceTable read_acceptance_table(const std::filesystem::path& path) {
  toml::table root;
  try {
    root = toml::parse(read_file(path), path.string());
  } catch (const toml::parse_error& failure) {
    throw input_error(fmt::format("{}, line {}: this is not valid TOML: {}.", path.string(),
                                  failure.source().begin.line, failure.description()));
  }
  Section top(root, path.string());
  AcceptanceTable table;
  table.area = path.stem().string();
  std::set<std::string> measurement_names;
  std::set<std::string> figure_names;
  for (Section& section : top.sections("measurement")) {
    table.measurements.push_back(read_measurement(section));
    check_name(table.measurements.back().name, section.place(), measurement_names);
    for (const Figure& figure : table.measurements.back().figures)
      check_name(figure.name, section.place(), figure_names);
  }
  top.refuse_others();
  return table;
}

}  // namespace stoker
