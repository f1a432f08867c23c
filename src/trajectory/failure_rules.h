#pragma once

#include <optional>

#include "base/result.h"

namespace stoker {

// What a failed episode means, by its class: the one place that says so.
//
//   class           the world's fault   scored
//   policy          no                  yes
//   limit           no                  yes, except limit.wall_clock
//   tool            yes                 no
//   environment     yes                 no
//   reward          yes                 no
//   infrastructure  yes                 no
//
// limit.wall_clock is the policy's as little as the world's: how far an episode gets in a time depends on the
// machine, so it is not scored. What is tried again, and what a run makes of the rest, is chosen in
// rollout/failure_policy.h.

// The world failed, so that a reward, if there is one, says nothing about the policy.
bool is_worlds_fault(const Failure& failure);

// Whether an episode that ended so is given to the rewards. Empty: done. The others have no reward, which is
// not zero.
bool is_scored_ending(const std::optional<Failure>& failure);

}  // namespace stoker
