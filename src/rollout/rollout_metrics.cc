#include "rollout/rollout_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

namespace stoker {
namespace {

// Whole numbers and how often each occurs.
class Distribution {
 public:
  void add(int64_t value, int64_t times = 1) {
    counts_[value] += times;
    total_ += times;
    sum_ += value * times;
  }
  bool empty() const { return total_ == 0; }
  double mean() const { return static_cast<double>(sum_) / static_cast<double>(total_); }
  int64_t maximum() const { return counts_.rbegin()->first; }
  // The smallest value such that at least `percent` of the numbers are not above it.
  int64_t percentile(int64_t percent) const {
    const int64_t rank = std::max<int64_t>(1, (total_ * percent + 99) / 100);
    int64_t seen = 0;
    for (const auto& [value, count] : counts_) {
      seen += count;
      if (seen >= rank) return value;
    }
    return maximum();
  }

 private:
  std::map<int64_t, int64_t> counts_;
  int64_t total_ = 0;
  int64_t sum_ = 0;
};

struct Statistics {
  int64_t episodes = 0;
  int64_t successes = 0;
  int64_t clipped = 0;
  int64_t failed = 0;
  int64_t tool_calls = 0;
  int64_t tool_errors = 0;
  Summary reward, length, turns;
  std::map<std::string, Summary> rewards;
  std::map<std::string, int64_t> failures;
  Distribution lag, in_flight, in_queue;
};

void add_lags(const EpisodeRecord& episode, int64_t step, Statistics& statistics) {
  const int64_t newest = episode.trajectory.newest_version().value_or(step);
  for (const VersionRun& run : episode.trajectory.version_runs()) {
    if (run.version < 0) continue;
    const int64_t tokens = run.end - run.begin;
    statistics.lag.add(step - run.version, tokens);
    statistics.in_flight.add(newest - run.version, tokens);
    statistics.in_queue.add(step - newest, tokens);
  }
}

void add_episode(const EpisodeRecord& episode, int64_t step, Statistics& statistics) {
  ++statistics.episodes;
  statistics.length.add(episode.trajectory.sampled_count());
  statistics.turns.add(episode.trajectory.turn_count());
  statistics.tool_calls += episode.tool_calls;
  statistics.tool_errors += episode.tool_errors;
  if (episode.failure) {
    ++statistics.failures[episode.failure->name()];
    const bool limit = episode.failure->failure_class == FailureClass::kLimit;
    ++(limit ? statistics.clipped : statistics.failed);
  }
  if (!episode.reward) return;
  statistics.successes += episode.success ? 1 : 0;
  statistics.reward.add(*episode.reward);
  for (const auto& [name, value] : episode.rewards) statistics.rewards[name].add(value);
  add_lags(episode, step, statistics);
}

void put_if(MetricMap& metrics, const std::string& name, const std::optional<double>& value) {
  if (value) metrics[name] = *value;
}

void put_range(MetricMap& metrics, const Summary& summary, const std::string& prefix,
               const std::string& suffix) {
  put_if(metrics, prefix + "mean" + suffix, summary.mean());
  put_if(metrics, prefix + "min" + suffix, summary.minimum());
  put_if(metrics, prefix + "max" + suffix, summary.maximum());
}

void put_staleness(MetricMap& metrics, const Statistics& statistics) {
  if (statistics.lag.empty()) return;
  metrics["staleness/lag/mean"] = statistics.lag.mean();
  for (int64_t percent : {50, 95, 99}) {
    metrics["staleness/lag/p" + std::to_string(percent)] =
        static_cast<double>(statistics.lag.percentile(percent));
  }
  metrics["staleness/lag/max"] = static_cast<double>(statistics.lag.maximum());
  metrics["staleness/in_flight/mean"] = statistics.in_flight.mean();
  metrics["staleness/in_queue/mean"] = statistics.in_queue.mean();
}

}  // namespace

MetricMap rollout_metrics(const RolloutBatch& batch) {
  Statistics statistics;
  for (const Group& group : batch.groups) {
    for (const EpisodeRecord& episode : group.episodes) add_episode(episode, batch.step, statistics);
  }
  MetricMap metrics;
  if (statistics.episodes == 0) return metrics;
  const auto share = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(statistics.episodes);
  };
  put_if(metrics, "reward", statistics.reward.mean());
  for (const auto& [name, summary] : statistics.rewards) {
    put_if(metrics, "rewards/" + name + "/mean", summary.mean());
    put_if(metrics, "rewards/" + name + "/std", summary.deviation());
  }
  metrics["success"] = share(statistics.successes);
  put_range(metrics, statistics.length, "completions/", "_length");
  put_range(metrics, statistics.length, "response_length/", "");
  metrics["completions/clipped_ratio"] = metrics["response_length/clip_ratio"] = share(statistics.clipped);
  put_range(metrics, statistics.turns, "num_turns/", "");
  metrics["tools/call_frequency"] = share(statistics.tool_calls);
  if (statistics.tool_calls > 0) {
    metrics["tools/failure_frequency"] =
        static_cast<double>(statistics.tool_errors) / static_cast<double>(statistics.tool_calls);
  }
  for (const auto& [name, count] : statistics.failures)
    metrics["failure/" + name] = static_cast<double>(count);
  metrics["failure/share"] = share(statistics.failed);
  put_staleness(metrics, statistics);
  return metrics;
}

}  // namespace stoker
