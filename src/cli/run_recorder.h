#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "async/executor.h"
#include "base/metrics.h"
#include "observe/metrics_server.h"
#include "observe/metrics_writer.h"
#include "observe/progress_bar.h"
#include "observe/tensorboard_writer.h"

namespace stoker {

// Shows and keeps the numbers of a run: one line a step on the terminal, a progress bar with the time left,
// and the same numbers in metrics.jsonl, a TensorBoard event file and, if asked for, for Prometheus.
class RunRecorder {
 public:
  struct Column {
    const char* metric;  // name in the MetricMap; a step without it leaves the column out
    const char* label;
    const char* format;  // of fmt, for one double
  };

  // `resume_step`: of a run that goes on; lines of later steps are dropped. `executor` must outlive the
  // object. `metrics_port` 0: nothing is served.
  RunRecorder(const Executor& executor, const std::filesystem::path& run_folder, int64_t total_steps,
              std::vector<Column> columns, bool quiet, std::optional<int64_t> resume_step, int metrics_port);

  // Adds process/peak_memory_bytes: the most memory that the process has held so far.
  void record_step(int64_t step, const MetricMap& metrics);
  // Written with the step's number; `line` is shown.
  void record_evaluation(int64_t step, const MetricMap& metrics, const std::string& line);
  // Takes the progress bar from the terminal.
  void finish();

 private:
  void write(int64_t step, const MetricMap& metrics);
  std::string step_line(int64_t step, const MetricMap& metrics) const;
  void show(const std::string& line);

  const Executor& executor_;
  int64_t first_step_;
  int64_t total_steps_;
  std::vector<Column> columns_;
  MetricsWriter metrics_;
  TensorBoardWriter tensorboard_;
  std::optional<MetricsServer> server_;
  std::optional<ProgressBar> progress_;
  bool quiet_;
  TimePoint start_;
  int64_t last_step_;
};

// Seconds since 1970, for event files.
double wall_clock_seconds();

}  // namespace stoker
