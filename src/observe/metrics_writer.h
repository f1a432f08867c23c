#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/metrics.h"

namespace stoker {

// Writes metrics.jsonl: one strict JSON object a step, {"step": 3, "seconds": 12.5, NAME: VALUE, ...}, names
// in order. A value that is not finite is null. Each line is written whole, so that a killed run leaves whole
// lines.
class MetricsWriter {
 public:
  // Starts `path` anew; or, for a run that goes on from a checkpoint at `resume_step`, keeps the lines of
  // steps up to it and drops later ones, whose steps will be taken again. Throws Error when the file cannot
  // be written, or when a kept line is no metrics line.
  explicit MetricsWriter(const std::filesystem::path& path,
                         std::optional<int64_t> resume_step = std::nullopt);

  // `seconds`: time since the run began, by the executor's clock. Throws Error(kResource) when the disk is
  // full.
  void write(int64_t step, double seconds, const MetricMap& metrics);

 private:
  LineWriter lines_;
};

}  // namespace stoker
