#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// What a figure must reach: a comparison with a number.
struct Bar {
  enum class Comparison { kAtLeast, kAbove, kAtMost, kBelow, kEqual };
  Comparison comparison = Comparison::kAtLeast;
  double bound = 0;
  std::string text;  // ">= 0.9"

  // False for a value that is not finite.
  bool holds(double value) const;
};
// Reads ">= 0.9", "> 0", "<= 240", "< 60" or "== 0"; throws Error(kInput) on anything else.
Bar parse_bar(std::string_view text);

// One number with its bar.
struct Figure {
  std::string name;  // within the area
  std::string
      value;  // name in the list that the command writes, or "exit_status" or "seconds" of the command itself
  std::string minus;  // when set, this value is taken away
  Bar bar;
};

// One command that yields figures. It finds the file to write them to, a JSON list of {name, value, unit}, in
// $FIGURES_JSON, and runs in the root of the tree.
struct Measurement {
  std::string name;
  std::string command;
  double limit_seconds = 3600;
  std::vector<std::string> paths;  // what a long measurement depends on, as Git path specifications
  std::vector<Figure> figures;
};

// The figures of one area, acceptance/AREA.toml:
//
//   [[measurement]]
//   name = "demo_seed_1"
//   command = './dev demo --seed 1 --json "$FIGURES_JSON"'
//   paths = ["src", "examples/calculator"]
//   [[measurement.figure]]
//   name = "demo_seed_1_success_after"
//   value = "success_after"
//   bar = ">= 0.9"
struct AcceptanceTable {
  std::string area;
  std::vector<Measurement> measurements;
};

// Reads and checks a table: unknown keys, missing ones, wrong bars and names used twice throw Error(kInput).
AcceptanceTable read_acceptance_table(const std::filesystem::path& path);

}  // namespace stoker
