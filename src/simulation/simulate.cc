#include "simulation/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "base/random.h"
#include "engine/turn_boundary_engine.h"
#include "rollout/orchestrator.h"
#include "simulation/timed_player.h"
#include "simulation/workload.h"

namespace stoker {
namespace {

class NumberedTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override { return {.id = std::to_string(ordinal), .fields = {}}; }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

// Weights that carry nothing but a version.
WeightsPtr weights_of_version(int64_t version) {
  ModelConfig config;
  config.vocab_size = 8;
  config.hidden_size = 8;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 1;
  config.num_key_value_heads = 1;
  config.head_dim = 8;
  config.intermediate_size = 8;
  config.max_position_embeddings = 8;
  auto weights = std::make_shared<Weights>(config);
  weights->set_version(version);
  return weights;
}

// The value below which `share` of the sorted values lie.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// The scale of a group at which the longest tenth begins, from draws of its own.
double longest_tenth(const Scenario& scenario) {
  constexpr uint64_t kDraws = 20'000;
  Workload draws(scenario.law, scenario.sample_cv, scenario.group_size, 0x5eed);
  std::vector<double> means;
  for (uint64_t ordinal = 0; ordinal < kDraws; ++ordinal) means.push_back(draws.group_mean(ordinal));
  std::sort(means.begin(), means.end());
  return quantile(means, 0.9);
}

class Simulation {
 public:
  Simulation(const Scenario& scenario, Tracer* tracer, const Variation& variation)
      : scenario_(scenario),
        variation_(variation),
        executor_(variation.schedule.value_or(static_cast<uint64_t>(scenario.seed))),
        workload_(scenario.law, scenario.sample_cv, scenario.group_size,
                  static_cast<uint64_t>(scenario.seed)),
        engine_(engine_options(scenario), executor_),
        turn_engine_(engine_),
        activity_(tracer),
        player_(scenario_, workload_, engine_, served(), activity_, executor_),
        orchestrator_({.controller = options(),
                       .first_ordinal = variation.first_ordinal,
                       .event_log = variation.event_log,
                       .activity = &activity_},
                      player_, tasks_, served()),
        longest_(longest_tenth(scenario)) {
    workload_.grow(scenario.growth, groups_of_run());
    workload_.begin_at(variation.first_ordinal);
    if (variation.shuffled_samples) workload_.shuffle_samples();
    if (variation.shuffled_groups) {
      workload_.shuffle_groups(static_cast<uint64_t>(scenario.groups_per_step));
    }
    engine_.when_published([this] { swapped(); });
  }

  SimulationResult run() {
    stoker::run(executor_, drive());
    summarise();
    return result_;
  }

 private:
  double groups_of_run() const { return static_cast<double>(scenario_.steps) * scenario_.groups_per_step; }

  ControllerOptions options() const {
    ControllerOptions options = controller_options(scenario_);
    constexpr int64_t kEndless = 1 << 20;
    if (scenario_.endless) options.total_steps += kEndless;
    if (variation_.frozen_weights)
      options.end_ordinal = variation_.first_ordinal + static_cast<uint64_t>(groups_of_run());
    return options;
  }

  void swapped() {
    const double open_groups = orchestrator_.controller().open_groups();
    outstanding_.push_back(open_groups);
    if (player_.in_flight() + scenario_.group_size <= scenario_.max_concurrent_episodes) {
      outstanding_unblocked_.push_back(open_groups);
    }
    if (scenario_.on_update == "restart") player_.restart_all();
  }

  Engine& served() {
    if (scenario_.update_boundary == "turn") return turn_engine_;
    return engine_;
  }

  Task<> drive() {
    co_await orchestrator_.start();
    int64_t steps = 0;
    begin_measurement();
    while (std::optional<RolloutBatch> batch = co_await orchestrator_.next_batch()) {
      for (const Group& group : batch->groups) add(group, batch->step);
      depths_.push_back(orchestrator_.controller().depth());
      co_await sleep_for(from_seconds(scenario_.train_seconds));
      if (variation_.frozen_weights) {
        orchestrator_.step_skipped();
      } else {
        co_await orchestrator_.step_finished(weights_of_version(batch->step + 1));
      }
      ++steps;
      if (steps == scenario_.warm_up_steps) begin_measurement();
      if (steps == scenario_.steps) {
        end_measurement(steps - scenario_.warm_up_steps);
        break;
      }
    }
    co_await orchestrator_.close();
  }

  void begin_measurement() {
    start_ = executor_.now();
    tokens_before_ = engine_.generated_tokens();
    in_flight_before_ = player_.episode_seconds();
    lags_.clear();
    turn_lags_.clear();
    scales_.clear();
    groups_ = long_groups_ = 0;
    depths_.clear();
    outstanding_.clear();
    outstanding_unblocked_.clear();
  }

  // That of its dispatch, or of the restart after which its first member ended.
  int64_t version_of(const Group& group) const {
    if (scenario_.on_update != "restart") return group.dispatch_version;
    int64_t oldest = group.dispatch_version + scenario_.steps;
    for (const EpisodeRecord& episode : group.episodes) {
      oldest = std::min(oldest, episode.trajectory.oldest_version().value_or(oldest));
    }
    return oldest;
  }

  void add(const Group& group, int64_t step) {
    const double lag = static_cast<double>(step - version_of(group));
    ++groups_;
    long_groups_ += workload_.group_mean(group.task_ordinal) > longest_ ? 1 : 0;
    last_ordinal_ = std::max(last_ordinal_, group.task_ordinal);
    for (const EpisodeRecord& episode : group.episodes) {
      lags_.push_back(lag);
      scales_.push_back(workload_.scale(episode.id.task_ordinal, episode.id.sample));
      trained_.add(episode.id.task_ordinal, episode.id.sample, player_.take_played(episode.id),
                   group.dispatch_version, step);
      for (const VersionRun& run : episode.trajectory.version_runs()) {
        if (run.version < 0) continue;
        turn_lags_.insert(turn_lags_.end(), static_cast<size_t>(run.end - run.begin),
                          static_cast<double>(step - run.version));
      }
    }
  }

  void end_measurement(int64_t steps) {
    result_.virtual_seconds = to_seconds(executor_.now() - start_);
    result_.trainer_utilisation =
        static_cast<double>(steps) * scenario_.train_seconds / result_.virtual_seconds;
    result_.engine_utilisation = (engine_.generated_tokens() - tokens_before_) /
                                 (scenario_.engine_tokens_per_second * result_.virtual_seconds);
    result_.slot_utilisation = (player_.episode_seconds() - in_flight_before_) /
                               (scenario_.max_concurrent_episodes * result_.virtual_seconds);
  }

  void summarise() {
    result_.trajectories = static_cast<int64_t>(lags_.size());
    result_.trajectories_per_hour = 3600 * static_cast<double>(lags_.size()) / result_.virtual_seconds;
    std::sort(lags_.begin(), lags_.end());
    result_.lag_mean = mean(lags_);
    result_.lag_p50 = quantile(lags_, 0.5);
    result_.lag_p95 = quantile(lags_, 0.95);
    result_.lag_p99 = quantile(lags_, 0.99);
    result_.lag_max = quantile(lags_, 1);
    result_.turn_lag_mean = mean(turn_lags_);
    result_.depth_mean = mean(depths_);
    result_.outstanding_mean = mean(outstanding_) / scenario_.groups_per_step;
    result_.outstanding_unblocked_mean = mean(outstanding_unblocked_) / scenario_.groups_per_step;
    result_.unblocked_share = outstanding_.empty() ? 0
                                                   : static_cast<double>(outstanding_unblocked_.size()) /
                                                         static_cast<double>(outstanding_.size());
    result_.depth_found = orchestrator_.controller().found_depth();
    std::vector<double> dispatched;
    for (uint64_t ordinal = variation_.first_ordinal; ordinal <= last_ordinal_; ++ordinal) {
      dispatched.push_back(workload_.group_mean(ordinal));
    }
    result_.length_ratio = mean(scales_) / mean(dispatched);
    result_.longest_tenth_share =
        groups_ == 0 ? 0 : static_cast<double>(long_groups_) / static_cast<double>(groups_);
    const Controller& controller = orchestrator_.controller();
    result_.stale_groups = controller.stale_groups();
    result_.stale_share = static_cast<double>(result_.stale_groups) /
                          (static_cast<double>(result_.stale_groups) + groups_of_run());
    result_.trained = trained_;
    result_.played = player_.played_set();
    result_.schedule_digest = executor_.schedule_digest();
  }

  const Scenario scenario_;
  const Variation variation_;
  SimulatedExecutor executor_;
  Workload workload_;
  ProcessorSharingEngine engine_;
  TurnBoundaryEngine turn_engine_;  // around engine_
  RunActivity activity_;
  TimedPlayer player_;
  NumberedTasks tasks_;
  Orchestrator orchestrator_;
  double longest_;
  TrainedDigest trained_;

  TimePoint start_{};
  double tokens_before_ = 0;
  double in_flight_before_ = 0;
  std::vector<double> lags_, turn_lags_, scales_, depths_, outstanding_, outstanding_unblocked_;
  int64_t groups_ = 0, long_groups_ = 0;
  uint64_t last_ordinal_ = 0;
  SimulationResult result_;
};

}  // namespace

SimulationResult simulate(const Scenario& scenario, Tracer* tracer, const Variation& variation) {
  return Simulation(scenario, tracer, variation).run();
}

MetricMap to_metrics(const SimulationResult& result) {
  return {{"virtual_seconds", result.virtual_seconds},
          {"trajectories", static_cast<double>(result.trajectories)},
          {"trajectories_per_hour", result.trajectories_per_hour},
          {"trainer_utilisation", result.trainer_utilisation},
          {"engine_utilisation", result.engine_utilisation},
          {"slot_utilisation", result.slot_utilisation},
          {"lag/mean", result.lag_mean},
          {"lag/p50", result.lag_p50},
          {"lag/p95", result.lag_p95},
          {"lag/p99", result.lag_p99},
          {"lag/max", result.lag_max},
          {"turn_lag/mean", result.turn_lag_mean},
          {"outstanding/mean", result.outstanding_mean},
          {"depth/mean", result.depth_mean},
          {"depth/found", static_cast<double>(result.depth_found)},
          {"length_ratio", result.length_ratio},
          {"longest_tenth_share", result.longest_tenth_share},
          {"stale_groups", static_cast<double>(result.stale_groups)},
          {"stale_share", result.stale_share}};
}

}  // namespace stoker
