#pragma once

#include "simulation/scenario.h"

namespace stoker {

// The slow plain twin of simulate(): the discrete-event model of the protocol (Stoker's reference on
// asynchronous rollouts, section 9), which knows neither the controller nor the orchestrator, and shares only
// the draws of the workload with them. What the controller promises under a scenario is written here once
// more, as the rules of that section.

struct ReferenceResult {
  double trajectories_per_hour = 0;
  double lag_mean = 0;      // versions
  double length_ratio = 0;  // mean scale of trained episodes over that of dispatched ones
};

// Whether the model has rules for it: not for adaptive depth, updates between turns, masked tokens, failing
// tools, and a run whose end is measured.
bool reference_model_covers(const Scenario& scenario);

// Where the controller deviates from the rules of the published predictions. Those look at the cap when new
// weights serve; the controller does when a step ends, and what starts in between is a version older. Those
// have an arm of their own that discards, here stale_action drop in completion order: its groups start while
// less than a batch is ready; the controller has its depth.
enum class ReferenceRules { kController, kPublished };

// Plays a scenario that it covers, measured like simulate(). The same result on every machine.
ReferenceResult reference_model(const Scenario& scenario, ReferenceRules rules = ReferenceRules::kController);

}  // namespace stoker
