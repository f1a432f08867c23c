#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "async/parallel.h"
#include "simulation/reference_model.h"
#include "simulation/scenario.h"

namespace stoker {

// The controller against the model of the protocol, on the same draws.
struct Agreement {
  double controller = 0;  // trajectories per hour, mean over the seeds
  double model = 0;
  double difference() const { return controller / model - 1; }
};

// Seeds 1 to `seeds` of a scenario that reference_model() covers, measured within an endless run. The same
// result for every number of threads.
Agreement compare_with_model(Scenario scenario, int64_t seeds, Parallel& parallel);

// Mean over the seeds of the model alone.
double model_throughput(Scenario scenario, int64_t seeds, ReferenceRules rules, Parallel& parallel);

// The protocol's published predictions (section 8.6): trajectories per hour over those of colocated
// synchronous training, by the name of the arm and then of the law, for one of the regimes.
using Predictions = std::map<std::string, std::map<std::string, double>>;
Predictions published_predictions(const std::string& regime);

}  // namespace stoker
