#include "simulation/protocol_controls.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "async/executor.h"
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

}  // namespace

bool is_plain_synchronous(Scenario scenario) {
  scenario.max_ahead = 0;
  TrainedDigest plain;
  Workload workload = workload_of(scenario);
  uint64_t ordinal = 0;
  for (int64_t step = 0; step < scenario.steps; ++step) {
    for (int group = 0; group < scenario.groups_per_step; ++group, ++ordinal) {
      for (uint32_t sample = 0; sample < static_cast<uint32_t>(scenario.group_size); ++sample) {
        plain.add(ordinal, sample, expected_of(scenario, workload.scale(ordinal, sample)), step, step);
      }
    }
  }
  return simulate(scenario).trained.order() == plain.order();
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
  const SimulationResult straight = simulate(scenario);
  const SimulationResult reversed = simulate(scenario, nullptr, {.reversed_samples = true});
  return std::max(relative(reversed.trajectories_per_hour, straight.trajectories_per_hour),
                  relative(reversed.lag_mean, straight.lag_mean));
}

}  // namespace stoker
