#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "async/parallel.h"
#include "simulation/reference_model.h"
#include "simulation/scenario.h"

namespace stoker {

// The controller, the model of the protocol and the protocol's published predictions against each other.

// Seeds 1 to `seeds` of a scenario that reference_model() covers, by seed. The same results for every number
// of threads.
std::vector<ReferenceResult> play_controller(const Scenario& scenario, int64_t seeds, Parallel& parallel);
std::vector<ReferenceResult> play_model(const Scenario& scenario, int64_t seeds, const ReferenceRules& rules,
                                        Parallel& parallel);

// Over the first `seeds` of the results.
ReferenceResult mean_of(const std::vector<ReferenceResult>& results, int64_t seeds);

// How far one result is from another, as shares: of throughput and trained length, and of lag where there is
// any, else in versions.
struct Agreement {
  double throughput = 0;
  double lag = 0;
  double length = 0;

  double most() const;
  // The larger ones of both, by amount.
  Agreement worst(const Agreement& other) const;
};
Agreement compare(const ReferenceResult& result, const ReferenceResult& expected);

// One of the protocol's published predictions (section 8.6).
struct Prediction {
  double speed = 0;           // trajectories per hour over those of colocated synchronous training
  double length = 1;          // mean length of what is trained over that of what was asked for
  std::optional<double> lag;  // mean, in versions, to one decimal; only some are published
};
// By the name of the arm and then of the law, for one of the regimes.
using Predictions = std::map<std::string, std::map<std::string, Prediction>>;
Predictions published_predictions(const std::string& regime);

// `colocated`: what the baseline of the speed came to. A lag that rounds to the published one is not off.
Agreement compare(const ReferenceResult& result, const ReferenceResult& colocated,
                  const Prediction& published);

// What makes an arm of the controller differ from its prediction: under the published rules less these ones
// the model does as the controller does.
struct Ablation {
  std::string arm;
  std::string what;  // is taken away
  ReferenceRules rules;
};
const std::vector<Ablation>& published_ablations();

}  // namespace stoker
