#include "simulation/agreement.h"

#include <numeric>
#include <vector>

#include "simulation/simulate.h"

namespace stoker {
namespace {

// The mean of what `value` says of the scenario under each seed.
template <typename Value>
double mean_over_seeds(const Scenario& scenario, int64_t seeds, Parallel& parallel, Value value) {
  std::vector<double> values(static_cast<size_t>(seeds));
  parallel.for_each(static_cast<int>(seeds), [&](int index) {
    Scenario of_seed = scenario;
    of_seed.seed = index + 1;
    values[static_cast<size_t>(index)] = value(of_seed);
  });
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(seeds);
}

}  // namespace

double model_throughput(Scenario scenario, int64_t seeds, ReferenceRules rules, Parallel& parallel) {
  scenario.endless = true;
  return mean_over_seeds(scenario, seeds, parallel, [&](const Scenario& of_seed) {
    return reference_model(of_seed, rules).trajectories_per_hour;
  });
}

Agreement compare_with_model(Scenario scenario, int64_t seeds, Parallel& parallel) {
  scenario.endless = true;
  return {.controller = mean_over_seeds(
              scenario, seeds, parallel,
              [](const Scenario& of_seed) { return simulate(of_seed).trajectories_per_hour; }),
          .model = model_throughput(scenario, seeds, ReferenceRules::kController, parallel)};
}

}  // namespace stoker
