#include "cli/bench_async_result.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace stoker {
namespace {

constexpr double kHour = 3600, kMinute = 60, kMebibyte = 1 << 20;

struct FigureRow {
  const char* name;
  const char* label;
  int digits;
};
constexpr FigureRow kRows[] = {
    {"seconds_to_target", "seconds of training to the target", 1},
    {"step_to_target", "steps to the target", 1},
    {"success_before", "success before", 3},
    {"final_success", "success after the last step", 3},
    {"seconds", "seconds of training", 1},
    {"step_time", "seconds a step", 2},
    {"trajectories_per_hour", "trajectories per hour", 0},
    {"useful_trajectories_per_hour", "useful trajectories per hour", 0},
    {"engine_utilisation", "utilisation of the engine", 2},
    {"learner_utilisation", "utilisation of the learner", 2},
    {"learner_compute", "the same, without what the engine computed meanwhile", 2},
    {"episodes_in_flight", "episodes in flight", 1},
    {"ready_groups", "groups that wait for the learner", 1},
    {"lag_mean", "lag, mean (versions)", 2},
    {"lag_max", "lag, greatest (versions)", 1},
    {"weight_updates_per_minute", "weight updates per minute", 1},
    {"publish_seconds", "seconds of a weight update", 4},
    {"publish_share", "share of the time in weight updates", 4},
    {"generation_seconds", "seconds of generation an episode", 3},
    {"tool_seconds", "seconds a tool call", 3},
    {"dropped_groups", "groups dropped", 1},
    {"peak_memory_mebibytes", "peak memory, MiB", 0},
};

bool is_training_step(const MetricsLine& line) { return line.metrics.contains("step_time"); }

double value_or(const MetricMap& metrics, const std::string& name, double otherwise) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? otherwise : found->second;
}

// Over training steps.
struct StepTotals {
  const std::vector<MetricsLine>& lines;
  double steps = 0, seconds = 0;
  const MetricMap* last = nullptr;

  explicit StepTotals(const std::vector<MetricsLine>& given) : lines(given) {
    for (const MetricsLine& line : lines) {
      if (!is_training_step(line)) continue;
      ++steps;
      seconds = std::max(seconds, line.seconds);
      last = &line.metrics;
    }
  }
  double sum(const std::string& name) const {
    double total = 0;
    for (const MetricsLine& line : lines)
      total += is_training_step(line) ? value_or(line.metrics, name, 0) : 0;
    return total;
  }
  double greatest(const std::string& name) const {
    double most = 0;
    for (const MetricsLine& line : lines) most = std::max(most, value_or(line.metrics, name, 0));
    return most;
  }
};

double total_of(const std::map<std::string, SpanTimes>& spans, const char* name) {
  const auto found = spans.find(name);
  return found == spans.end() ? 0 : found->second.total;
}

void add_trace(const TraceSummary& trace, MetricMap& figures) {
  figures["engine_utilisation"] = trace.engine_busy;
  figures["learner_utilisation"] = trace.learner_busy;
  figures["learner_compute"] = trace.learner_compute;
  figures["episodes_in_flight"] = trace.running_mean;
  const auto episodes = trace.episode_spans.find("episode");
  if (episodes != trace.episode_spans.end() && episodes->second.count > 0) {
    figures["generation_seconds"] =
        (total_of(trace.episode_spans, "prefill") + total_of(trace.episode_spans, "decode")) /
        static_cast<double>(episodes->second.count);
  }
  const auto tools = trace.episode_spans.find("tool");
  if (tools != trace.episode_spans.end() && tools->second.count > 0)
    figures["tool_seconds"] = tools->second.mean;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<std::string> arms_of(const std::vector<ArmResult>& results) {
  std::vector<std::string> arms;
  for (const ArmResult& result : results) {
    if (std::find(arms.begin(), arms.end(), result.arm) == arms.end()) arms.push_back(result.arm);
  }
  return arms;
}

// The mean over the seeds that have the figure, and of how many where some lack it.
std::string mean_cell(const std::vector<ArmResult>& results, const std::string& arm, const FigureRow& row) {
  double sum = 0;
  int have = 0, seeds = 0;
  for (const ArmResult& result : results) {
    if (result.arm != arm) continue;
    ++seeds;
    const auto found = result.figures.find(row.name);
    if (found == result.figures.end()) continue;
    ++have;
    sum += found->second;
  }
  if (have == 0) return "-";
  const std::string mean = fmt::format("{:.{}f}", sum / have, row.digits);
  return have == seeds ? mean : fmt::format("{} ({} of {} seeds)", mean, have, seeds);
}

std::string comparison_line(const Comparison& comparison) {
  if (comparison.pairs == 0) {
    return fmt::format("* {}: no seed of {} has it for both arms\n", comparison.name, comparison.seeds);
  }
  const char* format = comparison.is_ratio
                           ? "* {}: median {:.2f}, mean {:.2f} [{:.2f}, {:.2f}], {} of {} seeds\n"
                           : "* {}: median {:+.3f}, mean {:+.3f} [{:+.3f}, {:+.3f}], {} of {} seeds\n";
  return fmt::format(fmt::runtime(format), comparison.name, comparison.median, comparison.interval.mean,
                     comparison.interval.low, comparison.interval.high, comparison.pairs, comparison.seeds);
}

}  // namespace

std::vector<MetricsLine> read_metrics(const std::filesystem::path& file) {
  std::vector<MetricsLine> lines;
  for_each_line(file, [&](std::string_view text, size_t number, bool complete) {
    if (!complete) return false;
    const Json row = Json::parse(text, fmt::format("{}, line {}", file.string(), number));
    MetricsLine& line = lines.emplace_back();
    line.step = row.at("step").as_int();
    line.seconds = row.at("seconds").as_double();
    for (const auto& [name, value] : row.as_object()) {
      if (name != "step" && name != "seconds" && value.is_number()) line.metrics[name] = value.as_double();
    }
    return true;
  });
  return lines;
}

std::optional<TimeToTarget> time_to_target(const std::vector<MetricsLine>& lines, const std::string& metric,
                                           double target) {
  std::map<int64_t, double> ends{{0, 0.0}};  // of steps, seconds
  std::set<int64_t> reached;
  for (const MetricsLine& line : lines) {
    if (is_training_step(line)) ends[line.step] = line.seconds;
    const auto found = line.metrics.find(metric);
    if (found != line.metrics.end() && found->second >= target) reached.insert(line.step);
  }
  for (const int64_t step : reached) {
    if (const auto end = ends.find(step); end != ends.end()) return TimeToTarget{step, end->second};
  }
  return std::nullopt;
}

MetricMap arm_figures(const std::vector<MetricsLine>& lines, const TraceSummary& trace,
                      const std::string& success, double target) {
  const StepTotals totals(lines);
  if (totals.steps == 0 || totals.seconds <= 0) {
    throw input_error("A run of the benchmark took no training step; raise --steps.");
  }
  MetricMap figures;
  add_trace(trace, figures);
  if (const auto reached = time_to_target(lines, success, target)) {
    figures["seconds_to_target"] = reached->seconds;
    figures["step_to_target"] = static_cast<double>(reached->step);
  }
  int64_t last_evaluated = -1;
  for (const MetricsLine& line : lines) {
    const auto found = line.metrics.find(success);
    if (found == line.metrics.end()) continue;
    if (line.step == 0) figures["success_before"] = found->second;
    if (line.step < last_evaluated) continue;
    last_evaluated = line.step;
    figures["final_success"] = found->second;
  }
  figures["seconds"] = totals.seconds;
  figures["step_time"] = totals.sum("step_time") / totals.steps;
  figures["trajectories_per_hour"] = totals.sum("rows/total") / totals.seconds * kHour;
  figures["useful_trajectories_per_hour"] = totals.sum("rows/trained") / totals.seconds * kHour;
  figures["ready_groups"] = totals.sum("queue/ready_groups") / totals.steps;
  figures["lag_mean"] = totals.sum("staleness/lag/mean") / totals.steps;
  figures["lag_max"] = totals.greatest("staleness/lag/max");
  figures["weight_updates_per_minute"] = value_or(*totals.last, "version", 0) / totals.seconds * kMinute;
  figures["publish_seconds"] = totals.sum("time/publish") / totals.steps;
  figures["publish_share"] = totals.sum("time/publish") / totals.seconds;
  figures["dropped_groups"] = value_or(*totals.last, "rollout/dropped_groups", 0);
  figures["peak_memory_mebibytes"] = totals.greatest("process/peak_memory_bytes") / kMebibyte;
  return figures;
}

Comparison compare_arms(const std::vector<ArmResult>& results, const std::string& name,
                        const std::string& first, const std::string& second, const std::string& figure,
                        bool is_ratio) {
  std::map<int64_t, std::map<std::string, double>> by_seed;  // seed -> arm -> figure
  std::set<int64_t> seeds;
  for (const ArmResult& result : results) {
    seeds.insert(result.seed);
    const auto found = result.figures.find(figure);
    if (found != result.figures.end()) by_seed[result.seed][result.arm] = found->second;
  }
  std::vector<double> values;
  for (const auto& [seed, arms] : by_seed) {
    const auto one = arms.find(first), other = arms.find(second);
    if (one == arms.end() || other == arms.end() || (is_ratio && other->second == 0)) continue;
    values.push_back(is_ratio ? one->second / other->second : one->second - other->second);
  }
  Comparison comparison{.name = name,
                        .pairs = static_cast<int64_t>(values.size()),
                        .seeds = static_cast<int64_t>(seeds.size()),
                        .is_ratio = is_ratio};
  if (values.empty()) return comparison;
  comparison.median = median_of(values);
  comparison.interval = bootstrap_interval(values);
  return comparison;
}

std::vector<Comparison> protocol_comparisons(const std::vector<ArmResult>& results) {
  std::vector<Comparison> comparisons;
  for (const std::string latency : {"_latency", ""}) {
    const std::string sync = "sync" + latency, async = "async" + latency;
    const std::string when = latency.empty() ? "without latency" : "with latency";
    comparisons.push_back(compare_arms(results, "time to the target, sync over async, " + when, sync, async,
                                       "seconds_to_target", true));
    comparisons.push_back(compare_arms(results, "trajectories per hour, async over sync, " + when, async,
                                       sync, "trajectories_per_hour", true));
    comparisons.push_back(compare_arms(results, "final success, async less sync, " + when, async, sync,
                                       "final_success", false));
  }
  return comparisons;
}

std::string to_markdown(const std::vector<ArmResult>& results, const std::vector<Comparison>& comparisons) {
  std::string header = "| |", rule = "|---|";
  const std::vector<std::string> arms = arms_of(results);
  for (const std::string& arm : arms) header += " " + arm + " |", rule += "---|";
  std::string text = header + "\n" + rule + "\n";
  for (const FigureRow& row : kRows) {
    text += fmt::format("| {} |", row.label);
    for (const std::string& arm : arms) text += " " + mean_cell(results, arm, row) + " |";
    text += "\n";
  }
  text += "\n";
  for (const Comparison& comparison : comparisons) text += comparison_line(comparison);
  return text;
}

}  // namespace stoker
