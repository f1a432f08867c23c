#include "simulation/protocol_controls.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "async/executor.h"
#include "base/hash.h"
#include "rollout/decision.h"
#include "simulation/workload.h"

namespace stoker {
namespace {

Workload workload_of(const Scenario& scenario) {
  return Workload(scenario.law, scenario.sample_cv, scenario.group_size,
                  static_cast<uint64_t>(scenario.seed));
}

double relative(double value, double expected) {
  return expected == 0 ? std::abs(value) : std::abs(value / expected - 1);
}

// What an episode of this scale must be.
PlayedDigest expected_of(const Scenario& scenario, double scale) {
  PlayedDigest expected;
  for (int turn = 0; turn < scenario.turns; ++turn) {
    const double tokens = std::max(1.0, scale * scenario.tokens / scenario.turns);
    expected.add_turn(std::llround(tokens),
                      from_seconds(scale * scenario.tool_seconds / scenario.turns).count());
  }
  return expected;
}

class DecisionDigest {
 public:
  void add(const Json& decision) { value_ = digest_of<2>({value_, hash64(decision.dump())}); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

struct PlainRun {
  TrainedDigest trained;
  DecisionDigest decided;
};

// Synchronous training as a loop: play a batch, train it, publish.
PlainRun plain_synchronous(const Scenario& scenario) {
  PlainRun run;
  Workload workload = workload_of(scenario);
  uint64_t ordinal = 0;
  for (int64_t step = 0; step < scenario.steps; ++step) {
    Decision batch{.kind = DecisionKind::kConsumeBatch, .version = step};
    for (int group = 0; group < scenario.groups_per_step; ++group, ++ordinal) {
      batch.groups.push_back(ordinal);
      for (uint32_t sample = 0; sample < static_cast<uint32_t>(scenario.group_size); ++sample) {
        const Decision start{.kind = DecisionKind::kStartEpisode,
                             .episode = {.task_ordinal = ordinal, .sample = sample}};
        run.decided.add(start.to_json());
        run.trained.add(ordinal, sample, expected_of(scenario, workload.scale(ordinal, sample)), step, step);
      }
    }
    run.decided.add(batch.to_json());
    run.decided.add(Decision{.kind = DecisionKind::kPublish, .version = step + 1}.to_json());
  }
  run.decided.add(Decision{.kind = DecisionKind::kFinish, .reason = "all steps are done"}.to_json());
  return run;
}

}  // namespace

bool is_plain_synchronous(Scenario scenario) {
  scenario.max_ahead = 0;
  scenario.endless = false;
  const PlainRun plain = plain_synchronous(scenario);
  DecisionDigest decided;
  const SimulationResult result = simulate(scenario, nullptr, {.event_log = [&](const Json& line) {
                                             const Json* decisions = line.find("decisions");
                                             if (decisions == nullptr) return;
                                             for (const Json& decision : decisions->as_array()) {
                                               decided.add(decision);
                                             }
                                           }});
  return result.trained.order() == plain.trained.order() && decided.value() == plain.decided.value();
}

int64_t arms_that_play_others(const std::vector<Arm>& arms, const Scenario& base, Parallel& parallel) {
  using Episodes = std::pair<uint64_t, uint64_t>;  // those played, those trained
  std::vector<Episodes> episodes(arms.size());
  parallel.for_each(static_cast<int>(arms.size()), [&](int arm) {
    const auto index = static_cast<size_t>(arm);
    Scenario scenario = arms[index].apply(base);
    scenario.endless = false;
    const SimulationResult result = simulate(scenario, nullptr, {.frozen_weights = true});
    episodes[index] = {result.played, result.trained.set()};
  });
  return std::ranges::count_if(episodes, [&](const Episodes& of_arm) { return of_arm != episodes.front(); });
}

double little_difference(const SimulationResult& result, int depth) {
  double difference = relative(result.lag_mean, result.outstanding_mean);
  difference = std::max(difference, relative(std::max<double>(result.outstanding_mean, depth), depth));
  if (result.unblocked_share == 0) return difference;
  difference = std::max(difference, relative(result.outstanding_unblocked_mean, depth));
  if (result.unblocked_share < 1) return difference;
  return std::max(difference, relative(result.lag_mean, depth));
}

double synchronous_step_difference(Scenario scenario) {
  scenario.max_ahead = 0;
  Workload workload = workload_of(scenario);
  const double unloaded = scenario.tokens / scenario.sequence_tokens_per_second + scenario.tool_seconds;
  double expected = 0;
  for (int64_t step = scenario.warm_up_steps; step < scenario.steps; ++step) {
    double longest = 0;
    for (int group = 0; group < scenario.groups_per_step; ++group) {
      const auto ordinal = static_cast<uint64_t>(step * scenario.groups_per_step + group);
      for (uint32_t sample = 0; sample < static_cast<uint32_t>(scenario.group_size); ++sample) {
        longest = std::max(longest, workload.scale(ordinal, sample));
      }
    }
    expected += longest * unloaded + scenario.train_seconds + scenario.publish_seconds;
  }
  return relative(simulate(scenario).virtual_seconds, expected);
}

double relabelling_difference(const Scenario& scenario) {
  constexpr uint64_t kOtherOrdinal = 1'000'003, kOtherSchedule = 0x5c4ed;
  std::vector<Variation> names = {
      {.shuffled_samples = true}, {.first_ordinal = kOtherOrdinal}, {.schedule = kOtherSchedule}};
  const bool whole_batches =
      scenario.max_ahead == 0 && scenario.extra_groups == 0 &&
      scenario.groups_per_step * scenario.group_size <= scenario.max_concurrent_episodes;
  if (whole_batches) names.push_back({.shuffled_groups = true});
  const SimulationResult plain = simulate(scenario);
  double most = 0;
  for (const Variation& variation : names) {
    const SimulationResult renamed = simulate(scenario, nullptr, variation);
    most = std::max({most, relative(renamed.trajectories_per_hour, plain.trajectories_per_hour),
                     relative(renamed.lag_mean, plain.lag_mean),
                     relative(renamed.length_ratio, plain.length_ratio)});
  }
  return most;
}

}  // namespace stoker
