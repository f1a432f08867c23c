#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "observe/trace_summary.h"
#include "simulation/async_protocol.h"

namespace stoker {

// The arithmetic of `stoker bench async --real`: from the files of training runs to what is compared.

// One line of a run's metrics.jsonl: a training step, or an evaluation of the weights after it.
struct MetricsLine {
  int64_t step = 0;
  double seconds = 0;  // since the run began
  MetricMap metrics;   // what is null is left out
};
// Throws Error(kInput) naming file and line for what is no metrics line.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& file);

// The first evaluated step at which `metric` is at least `target`, and the seconds of training until that
// step had ended: 0 for step 0, whenever the evaluation itself was made. Empty when none is.
struct TimeToTarget {
  int64_t step = 0;
  double seconds = 0;
};
std::optional<TimeToTarget> time_to_target(const std::vector<MetricsLine>& lines, const std::string& metric,
                                           double target);

// What is reported of a run, from its metrics and its trace. `success`: the metric of its evaluations.
// Without seconds_to_target and step_to_target when it never got there. Means over steps are not weighted.
MetricMap arm_figures(const std::vector<MetricsLine>& lines, const TraceSummary& trace,
                      const std::string& success, double target);

// A finished run of one arm.
struct ArmResult {
  std::string arm;
  int64_t seed = 0;
  MetricMap figures;
};

// Two arms by one figure, over the seeds for which both have it.
struct Comparison {
  std::string name;
  int64_t pairs = 0;
  int64_t seeds = 0;     // that were run
  double median = 0;     // of the ratios or differences, a seed each
  Interval interval{};   // their mean, with its bootstrap interval
  bool is_ratio = true;  // else a difference
};
// `figure` of `first` over (or less) that of `second`.
Comparison compare_arms(const std::vector<ArmResult>& results, const std::string& name,
                        const std::string& first, const std::string& second, const std::string& figure,
                        bool is_ratio);

// The comparisons of the protocol: speed-up to the target, ratio of trajectories per hour and difference of
// final success, asynchronous against synchronous, with latency and without.
std::vector<Comparison> protocol_comparisons(const std::vector<ArmResult>& results);

// A row a figure, a column an arm, means over the seeds that have it; then the comparisons.
std::string to_markdown(const std::vector<ArmResult>& results, const std::vector<Comparison>& comparisons);

}  // namespace stoker
