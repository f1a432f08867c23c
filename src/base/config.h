#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stoker {

// Typed configuration. A struct lists its fields once; reading a run file, overrides, the resolved dump, the
// documentation and every error sentence derive from that list.
//
//   struct OptimizerConfig {
//     double learning_rate = 5e-4;
//     std::string schedule = "linear";
//     template <typename V> void for_each_field(V& visit) {
//       visit("learning_rate", learning_rate, "Peak learning rate.", at_least(0));
//       visit("schedule", schedule, "How the rate falls.", one_of({"constant", "linear", "cosine"}));
//     }
//   };
//   struct RunConfig {
//     OptimizerConfig optimizer;
//     template <typename V> void for_each_field(V& visit) { visit.section("optimizer", optimizer, "AdamW.");
//     }
//   };
//
//   RunConfig config;
//   ConfigReader reader(config);
//   reader.read_file("run.toml");
//   reader.set("optimizer.learning_rate=1e-3");  // the last one wins: default, then file, then command line
//
// Field types: bool, int, int64_t, double, std::string, std::vector<std::string>, std::vector<double>.
// Numbers are finite unless the constraint says otherwise; a duration is a double in seconds.

// What values a field allows; ranges hold for each element of a vector.
struct Constraint {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false;
  bool infinity_allowed = false;
  std::vector<std::string> choices;  // of a string field; empty: any string
};
Constraint at_least(double minimum);
Constraint above(double minimum);
Constraint between(double minimum, double maximum);  // both included
Constraint above_or_infinite(double minimum);        // for limits: inf means none
Constraint one_of(std::vector<std::string> choices);

// One key of the configuration: its dotted name, where its value lives, what it means and where the value
// came from.
struct ConfigField {
  using Target = std::variant<bool*, int*, int64_t*, double*, std::string*, std::vector<std::string>*,
                              std::vector<double>*>;
  std::string key;  // "optimizer.learning_rate"
  Target target;
  std::string documentation;
  Constraint constraint;
  std::string default_text;        // as TOML
  std::string origin = "default";  // "default", "run.toml, line 3" or "command line"
};

// The visitor given to for_each_field: collects fields in order, sections nested by dotted keys.
class ConfigFields {
 public:
  template <typename T>
  void operator()(std::string_view name, T& value, std::string_view documentation,
                  Constraint constraint = {}) {
    add(name, &value, documentation, std::move(constraint));
  }
  template <typename Section>
  void section(std::string_view name, Section& section, std::string_view documentation) {
    std::string outer = enter(name, documentation);
    section.for_each_field(*this);
    prefix_ = outer;
  }

  struct Section {
    std::string key;  // "optimizer"; empty for the top level
    std::string documentation;
  };
  std::vector<ConfigField> fields;
  std::vector<Section> sections;

 private:
  void add(std::string_view name, ConfigField::Target target, std::string_view documentation,
           Constraint constraint);
  std::string enter(std::string_view name, std::string_view documentation);

  std::string prefix_;
};

// Reads values into a configuration, which must outlive the reader and stay where it is. Every wrong input
// throws Error(kInput) that names the place (file and line, or the command line), the key and the remedy. A
// call that throws may have set earlier keys.
class ConfigReader {
 public:
  template <typename Config>
  explicit ConfigReader(Config& config) {
    config.for_each_field(fields_);
    check_defaults();
  }

  void read_file(const std::filesystem::path& path);
  // The same for TOML text; `name` stands for the file in origins and errors.
  void read_text(std::string_view text, std::string_view name);
  // "section.key=value" from the command line: the value is TOML; the quotes of a plain string may be left
  // out.
  void set(std::string_view assignment);

  // The resolved configuration as TOML that reads back to the same values, each line with its origin.
  std::string dump() const;
  // All keys as Markdown: a table a section with key, type, default, what is allowed and what it means.
  std::string documentation() const;
  // "optimizer.learning_rate (run.toml, line 3)", for sentences about values that do not fit together.
  std::string describe(std::string_view key) const;
  const std::vector<ConfigField>& fields() const { return fields_.fields; }

 private:
  void check_defaults() const;

  ConfigFields fields_;
};

// The name among `known` that is nearest to `name` by edit distance (insert, delete, replace, swap of
// neighbours), or empty when none is near enough to be meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace stoker
