#include "cli/figures.h"

#include "base/file.h"
#include "base/json.h"

namespace stoker {

void write_figures(const std::filesystem::path& path, const std::vector<Figure>& figures) {
  if (path.empty()) return;
  Json::Array list;
  for (const Figure& figure : figures) {
    Json entry = Json::object({{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}});
    if (figure.seed) entry.set("seed", *figure.seed);
    list.push_back(std::move(entry));
  }
  write_file_atomic(path, Json(std::move(list)).dump_pretty() + "\n");
}

}  // namespace stoker
