#include "base/figure_report.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace stoker {

void FigureReport::add(Figure figure) {
  for (const Figure& earlier : figures_) {
    if (earlier.name == figure.name && earlier.seed == figure.seed) {
      throw internal_error(fmt::format("The figure {} is reported twice.", figure.name));
    }
  }
  fmt::print("{:<52} {:>14.6g} {}", figure.name, figure.value, figure.unit);
  if (figure.baseline) fmt::print(" ({:.3g} of {:.6g})", figure.value / *figure.baseline, *figure.baseline);
  fmt::print("\n");
  std::fflush(stdout);
  figures_.push_back(std::move(figure));
}

void FigureReport::write(const std::filesystem::path& path) const {
  Json::Array list;
  for (const Figure& figure : figures_) {
    Json entry = Json::object({{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}});
    if (figure.baseline) {
      entry.set("baseline", *figure.baseline);
      entry.set("ratio", figure.value / *figure.baseline);
    }
    if (figure.seed) entry.set("seed", *figure.seed);
    list.push_back(std::move(entry));
  }
  write_file_atomic(path, Json(std::move(list)).dump_pretty() + "\n");
}

}  // namespace stoker
