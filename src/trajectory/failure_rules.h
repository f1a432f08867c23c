#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"

namespace stoker {

// What a failed episode means, by its class: the one place that says so.
//
//   class           the world's fault   tried again   scored
//   policy          no                  no            yes
//   limit           no                  no            yes, except limit.wall_clock
//   tool            yes                 yes           no
//   environment     yes                 yes           no
//   reward          yes                 no            no
//   infrastructure  yes                 yes           no
//
// limit.wall_clock is the policy's as little as the world's: how far an episode gets in a time depends on the
// machine, so it is neither scored nor tried again.

// The world failed, so that a reward, if there is one, says nothing about the policy.
bool is_worlds_fault(const Failure& failure);

// Another attempt may go better. `name`: as Failure::name gives it; empty (done) and unknown ones are not.
bool may_be_retried(std::string_view name);

// Whether an episode that ended so is given to the rewards. Empty: done. The others have no reward, which is
// not zero.
bool is_scored_ending(const std::optional<Failure>& failure);

}  // namespace stoker
