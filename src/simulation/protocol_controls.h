#pragma once

#include <cstdint>
#include <vector>

#include "async/parallel.h"
#include "simulation/async_protocol.h"
#include "simulation/scenario.h"
#include "simulation/simulate.h"

namespace stoker {

// The controls of the protocol (Stoker's reference on asynchronous rollouts, section 8.5): what must hold of
// every simulation, whatever it finds. Each is a number that says how far it is from holding.

// C1: whether depth 0 trains what a loop without a controller would: batch after batch, in order, each
// of its length and sampled under the version that it is trained on; and whether everything decided on the
// way is what such a loop does.
bool is_plain_synchronous(Scenario scenario);

// C2: with weights that never change, the arms whose episodes are not those of the first one: what was played
// of each (group, member, attempt, tokens and tool times turn by turn), and which were trained.
int64_t arms_that_play_others(const std::vector<Arm>& arms, const Scenario& base, Parallel& parallel);

// C3, Little's law: by what share the mean lag differs from the groups dispatched and not trained, in
// batches; by what share those are more than `depth`, the configured one, and not it wherever a slot was free
// for another group, so that nothing but the depth kept it back; and, where one always was, what the mean lag
// differs from it. The largest of them, of a run without drops, depth at least 1.
double little_difference(const SimulationResult& result, int depth);

// C4: by what share a synchronous step differs from its longest episode at an idle engine's speed plus
// training and publication, on the average. Only where the engine has enough for all sequences.
double synchronous_step_difference(Scenario scenario);

// C6: by what share throughput, mean lag or length ratio change at most under other names: when the members
// of each group exchange their numbers, when the tasks have other ordinals, when what is ready at once is
// done in another order, and, where whole batches start at once, when the groups of a batch exchange their
// ordinals.
double relabelling_difference(const Scenario& scenario);

}  // namespace stoker
