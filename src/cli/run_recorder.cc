#include "cli/run_recorder.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"

namespace stoker {

namespace {

// The most that this process has held at once so far.
double peak_memory_bytes() {
  constexpr double kKibibyte = 1024;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * kKibibyte;
}

}  // namespace

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

RunRecorder::RunRecorder(const Executor& executor, const std::filesystem::path& run_folder,
                         int64_t total_steps, std::vector<Column> columns, bool quiet,
                         std::optional<int64_t> resume_step, int metrics_port)
    : executor_(executor),
      first_step_(resume_step.value_or(0)),
      total_steps_(total_steps),
      columns_(std::move(columns)),
      metrics_(run_folder / "metrics.jsonl", resume_step),
      tensorboard_(run_folder, wall_clock_seconds(), resume_step),
      quiet_(quiet),
      start_(executor.now()),
      last_step_(first_step_) {
  if (metrics_port != 0) server_.emplace(static_cast<uint16_t>(metrics_port));
  bool terminal = isatty(STDERR_FILENO) != 0;
  if (!quiet && terminal && total_steps > first_step_) {
    progress_ = ProgressBar::on_standard_error("steps", total_steps - first_step_);
  }
}

void RunRecorder::write(int64_t step, const MetricMap& metrics) {
  metrics_.write(step, to_seconds(executor_.now() - start_), metrics);
  tensorboard_.write(step, wall_clock_seconds(), metrics);
  if (server_) server_->update(step, metrics);
}

std::string RunRecorder::step_line(int64_t step, const MetricMap& metrics) const {
  std::string line = fmt::format("step {:>{}}/{}", step, std::to_string(total_steps_).size(), total_steps_);
  for (const Column& column : columns_) {
    auto found = metrics.find(column.metric);
    if (found == metrics.end()) continue;
    line += fmt::format("  {} {}", column.label, fmt::format(fmt::runtime(column.format), found->second));
  }
  double seconds = to_seconds(executor_.now() - start_);
  int64_t done = step - first_step_;
  if (!progress_ && done > 0 && step < total_steps_) {
    line += fmt::format("  left {}", format_seconds(seconds / static_cast<double>(done) *
                                                    static_cast<double>(total_steps_ - step)));
  }
  return line;
}

void RunRecorder::show(const std::string& line) {
  if (quiet_) return;
  if (progress_) progress_->clear();
  log_info("{}", line);
  if (progress_) progress_->update(last_step_ - first_step_, to_seconds(executor_.now() - start_));
}

void RunRecorder::record_step(int64_t step, const MetricMap& metrics) {
  MetricMap with_memory = metrics;
  with_memory["process/peak_memory_bytes"] = peak_memory_bytes();
  write(step, with_memory);
  last_step_ = step;
  show(step_line(step, metrics));
}

void RunRecorder::record_evaluation(int64_t step, const MetricMap& metrics, const std::string& line) {
  write(step, metrics);
  show(line);
}

void RunRecorder::finish() {
  if (progress_) progress_->clear();
}

}  // namespace stoker
