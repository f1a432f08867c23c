#include "simulation/agreement.h"

#include <algorithm>
#include <cmath>

#include "simulation/simulate.h"

namespace stoker {
namespace {

template <typename Play>
std::vector<ReferenceResult> play_seeds(const Scenario& scenario, int64_t seeds, Parallel& parallel,
                                        Play play) {
  std::vector<ReferenceResult> results(static_cast<size_t>(seeds));
  parallel.for_each(static_cast<int>(seeds), [&](int index) {
    Scenario of_seed = scenario;
    of_seed.endless = true;
    of_seed.seed = index + 1;
    results[static_cast<size_t>(index)] = play(of_seed);
  });
  return results;
}

double relative_difference(double value, double expected) {
  return expected == 0 ? value : value / expected - 1;
}

double larger(double a, double b) { return std::abs(a) >= std::abs(b) ? a : b; }

}  // namespace

std::vector<ReferenceResult> play_controller(const Scenario& scenario, int64_t seeds, Parallel& parallel) {
  return play_seeds(scenario, seeds, parallel, [](const Scenario& of_seed) {
    const SimulationResult result = simulate(of_seed);
    return ReferenceResult{.trajectories_per_hour = result.trajectories_per_hour,
                           .lag_mean = result.lag_mean,
                           .length_ratio = result.length_ratio};
  });
}

std::vector<ReferenceResult> play_model(const Scenario& scenario, int64_t seeds, const ReferenceRules& rules,
                                        Parallel& parallel) {
  return play_seeds(scenario, seeds, parallel,
                    [&](const Scenario& of_seed) { return reference_model(of_seed, rules); });
}

ReferenceResult mean_of(const std::vector<ReferenceResult>& results, int64_t seeds) {
  ReferenceResult mean;
  for (size_t seed = 0; seed < static_cast<size_t>(seeds); ++seed) {
    mean.trajectories_per_hour += results[seed].trajectories_per_hour / static_cast<double>(seeds);
    mean.lag_mean += results[seed].lag_mean / static_cast<double>(seeds);
    mean.length_ratio += results[seed].length_ratio / static_cast<double>(seeds);
  }
  return mean;
}

double Agreement::most() const { return std::max({std::abs(throughput), std::abs(lag), std::abs(length)}); }

Agreement Agreement::worst(const Agreement& other) const {
  return {.throughput = larger(throughput, other.throughput),
          .lag = larger(lag, other.lag),
          .length = larger(length, other.length)};
}

Agreement compare(const ReferenceResult& result, const ReferenceResult& expected) {
  return {.throughput = relative_difference(result.trajectories_per_hour, expected.trajectories_per_hour),
          .lag = relative_difference(result.lag_mean, expected.lag_mean),
          .length = relative_difference(result.length_ratio, expected.length_ratio)};
}

Agreement compare(const ReferenceResult& result, const ReferenceResult& colocated,
                  const Prediction& published) {
  constexpr double kHalfADecimal = 0.05;
  const double lag = published.lag.value_or(result.lag_mean);
  const double nearest = std::clamp(result.lag_mean, lag - kHalfADecimal, lag + kHalfADecimal);
  return {.throughput = relative_difference(result.trajectories_per_hour / colocated.trajectories_per_hour,
                                            published.speed),
          .lag = relative_difference(lag + result.lag_mean - nearest, lag),
          .length = relative_difference(result.length_ratio, published.length)};
}

const std::vector<Ablation>& published_ablations() {
  static constexpr ReferenceRules kWithoutBoth{
      .cap_at_step_end = true, .queue_of_one_batch = false, .whole_tokens = false};
  static constexpr const char* kBoth = "the queue of one batch and the late look at the cap";
  static const std::vector<Ablation> ablations = {
      {.arm = "discard > 1", .what = kBoth, .rules = kWithoutBoth},
      {.arm = "discard > 2", .what = kBoth, .rules = kWithoutBoth},
      {.arm = "discard > 4", .what = kBoth, .rules = kWithoutBoth},
      {.arm = "discard > 8", .what = kBoth, .rules = kWithoutBoth}};
  return ablations;
}

}  // namespace stoker
