#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "acceptance_table.h"

namespace stoker {

// What was measured for one figure, as kept in acceptance/AREA/NAME.json.
struct FigureRecord {
  std::string area;
  std::string name;
  std::string bar;
  std::optional<double> value;  // missing when the command did not yield it
  std::string unit;
  std::string commit;   // the commit checked out
  bool clean = false;   // whether the code was that commit's, without further changes or untracked sources
  std::string command;  // digest of the measurement's command
  std::string machine;
  std::string log;  // path from the root of the tree
  double seconds = 0;
  bool holds = false;
};

// Measures and lists the figures of the tree at `root`, which must be a Git checkout.
//
// A record stands while what it was measured from is unchanged: the command in the table, and all code but
// tests and documents, or, for a measurement of more than 20 minutes, the paths that its table names.
class Acceptance {
 public:
  explicit Acceptance(std::filesystem::path root) : root_(std::move(root)) {}

  // Measures the figures of `area`, or only the figure or measurement called `name`, and records them. Skips
  // measurements whose figures all stand and hold unless `again`. True when every figure asked for holds.
  // A record that stands and holds is left alone by a command that gives no value for it. Throws
  // Error(kResource) when Ctrl-C or SIGTERM interrupts a measurement, which then records nothing, and
  // Error(kInput) for an unknown area or name.
  bool measure(const std::string& area, const std::string& name, bool again);

  // Prints one line a figure of `area`, or of all areas when empty; true when each one is there, stands and
  // holds.
  bool list(const std::string& area);

 private:
  AcceptanceTable table(const std::string& area) const;
  std::filesystem::path record_path(const std::string& area, const std::string& figure) const;
  std::optional<FigureRecord> record_of(const std::string& area, const Figure& figure) const;
  bool stands(const Measurement& measurement, const FigureRecord& record) const;
  bool run(const std::string& area, const Measurement& measurement);

  std::filesystem::path root_;
};

// Concatenates JSON lists of figures into one file.
void merge_figures(const std::filesystem::path& output, const std::vector<std::filesystem::path>& inputs);

// Counts of GoogleTest reports (--gtest_output=json:FILE) as figures: tests run, tests_failed, tests_skipped,
// and for each property that tests record as a number the sum of it.
void count_tests(const std::filesystem::path& output, const std::vector<std::filesystem::path>& inputs);

}  // namespace stoker
