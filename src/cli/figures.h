#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stoker {

// One printed figure, in the form of `--json FILE` (DESIGN section 8).
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<int64_t> seed;
};

// Writes a JSON list of {name, value, unit[, seed]}; nothing when `path` is empty.
void write_figures(const std::filesystem::path& path, const std::vector<Figure>& figures);

}  // namespace stoker
