#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

// Figures of a command or a benchmark (DESIGN section 8): printed as they come, one line each on standard
// output, and written at the end as a JSON list of {name, value, unit[, baseline, ratio][, seed]} where
// --json asks for it.
class FigureReport {
 public:
  struct Figure {
    std::string name;
    double value = 0;
    std::string unit;
    std::optional<double>
        baseline;  // what the value is compared with, in the same unit; written with value/baseline
    std::optional<int64_t> seed;  // of the run that gave the value
  };

  // Prints and keeps a figure. A name given twice throws Error(kInternal), unless the seeds differ.
  void add(Figure figure);
  void add(const std::string& name, double value, const std::string& unit) {
    add({name, value, unit, {}, {}});
  }

  // Throws Error(kResource) when the file cannot be written. Not finite values are null.
  void write(const std::filesystem::path& path) const;

  const std::vector<Figure>& figures() const { return figures_; }

 private:
  std::vector<Figure> figures_;
};

}  // namespace stoker
