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

// Where the controller deviates from the rules of the published predictions: one by one, so that a difference
// between the two can be traced to the rule that makes it.
struct ReferenceRules {
  // The cap is looked at when a step ends, and what starts during its publication is a version older for it;
  // else when the weights serve.
  bool cap_at_step_end = true;
  // Groups start while less than a batch is ready, whatever the depth, in the arms that discard: stale_action
  // drop in completion order.
  bool queue_of_one_batch = false;
  // A turn has a whole number of tokens, as an engine samples them; else fractions. Half a token decides
  // whether a turn ends before an update, after which restarted runs go different ways.
  bool whole_tokens = true;
};
constexpr ReferenceRules kControllerRules;
constexpr ReferenceRules kPublishedRules{
    .cap_at_step_end = false, .queue_of_one_batch = true, .whole_tokens = false};

// Plays a scenario that it covers, measured like simulate(). The same result on every machine.
ReferenceResult reference_model(const Scenario& scenario, const ReferenceRules& rules = kControllerRules);

}  // namespace stoker
