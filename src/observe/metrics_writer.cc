#include "observe/metrics_writer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace stoker {
namespace {

// Rewrites `path` with the lines of steps up to `step`; a cut last line goes.
void drop_later_steps(const std::filesystem::path& path, int64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::string kept;
  for_each_line(path, [&](std::string_view line, size_t line_number, bool complete) {
    if (!complete) return false;
    std::string place = fmt::format("{}, line {}", path.string(), line_number);
    Json row = Json::parse(line, place);
    const Json* row_step = row.find("step");
    if (row_step == nullptr || !row_step->is_integer()) {
      throw input_error(
          fmt::format("{}: the line has no integer \"step\"; move the file away to resume.", place));
    }
    if (row_step->as_int() <= step) kept.append(line).push_back('\n');
    return true;
  });
  write_file_atomic(path, kept);
}

LineWriter open_lines(const std::filesystem::path& path, std::optional<int64_t> resume_step) {
  if (resume_step) drop_later_steps(path, *resume_step);
  return LineWriter(path, /*append=*/resume_step.has_value());
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, std::optional<int64_t> resume_step)
    : lines_(open_lines(path, resume_step)) {}

void MetricsWriter::write(int64_t step, double seconds, const MetricMap& metrics) {
  Json::Object row;
  row.reserve(metrics.size() + 2);
  row.emplace_back("step", step);
  row.emplace_back("seconds", seconds);
  for (const auto& [name, value] : metrics) row.emplace_back(name, value);
  lines_.write_line(Json::object(std::move(row)).dump());
}

}  // namespace stoker
