#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stoker {

// What happens to an episode that failed.
enum class FailureAction {
  kRetry,    // another attempt, with other draws, up to max_attempts
  kExclude,  // no reward and no part in its group, which refills, shrinks or drops
  kShow,     // of a tool alone: the model sees an error, and the episode goes on
  kScore,    // of a limit alone: the rewards see the episode as it is
};

// By class of failure (trajectory/failure_rules.h says what they mean). `policy.*` is always scored, and
// limit.wall_clock never: how far an episode gets in a time depends on the machine. A limit that is scored
// can still be without loss: train.algorithm.mask_truncated.
struct FailurePolicy {
  FailureAction tool = FailureAction::kRetry;            // retry, exclude, show
  FailureAction environment = FailureAction::kRetry;     // retry, exclude
  FailureAction infrastructure = FailureAction::kRetry;  // retry, exclude
  FailureAction reward = FailureAction::kExclude;        // retry, exclude
  FailureAction limit = FailureAction::kScore;           // score, exclude

  // An episode that ended with this failure, "environment.timeout", is worth another attempt.
  bool retries(std::string_view failure) const;
  // An episode that ended so is given to the rewards; empty: done.
  bool scores(const std::optional<Failure>& failure) const;

  bool operator==(const FailurePolicy&) const = default;
};

// Throws Error(kInput) when an action does not fit its class, naming both and what fits.
void check(const FailurePolicy& policy);

// "retry", "exclude", "show", "score". An unknown name throws Error(kInput).
const char* to_string(FailureAction action);
FailureAction failure_action_from_name(const std::string& name);

}  // namespace stoker
