#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/descriptor.h"
#include "base/metrics.h"

namespace stoker {

// Writes scalars as a TensorBoard event file: TFRecord framing around Event messages.
class TensorBoardWriter {
 public:
  // Creates FOLDER/events.out.tfevents.START.stoker; `start_time` is in seconds since 1970. For a run that
  // goes on from a checkpoint at `resume_step` the file tells TensorBoard to forget later steps of earlier
  // files.
  TensorBoardWriter(const std::filesystem::path& folder, double start_time,
                    std::optional<int64_t> resume_step = std::nullopt);

  // `time` in seconds since 1970. Values are written as float32; what is not finite is left out. Throws
  // Error(kResource) when the disk is full.
  void write(int64_t step, double time, const MetricMap& metrics);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_header(double start_time, std::optional<int64_t> resume_step);
  void write_record(std::string_view event);

  std::filesystem::path path_;
  Descriptor descriptor_;
};

}  // namespace stoker
