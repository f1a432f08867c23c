#pragma once

#include <string>

#include "base/config.h"
#include "rollout/failure_policy.h"

namespace stoker {

// The section `rollout.failures` of a run file: what a failure leads to, by its class.
struct FailuresConfig {
  std::string tool = "retry";
  std::string environment = "retry";
  std::string infrastructure = "retry";
  std::string reward = "exclude";
  std::string limit = "score";

  template <typename V>
  void for_each_field(V& visit) {
    visit("tool", tool,
          "A tool that hung, threw or broke: retry the episode, exclude it, or show the model an error.",
          one_of({"retry", "exclude", "show"}));
    visit("environment", environment, "An environment that hung, threw or broke.",
          one_of({"retry", "exclude"}));
    visit("infrastructure", infrastructure, "An engine that is lost, and the like.",
          one_of({"retry", "exclude"}));
    visit("reward", reward, "A reward that hung, threw or gave no number.", one_of({"retry", "exclude"}));
    visit("limit", limit,
          "A budget of rollout.limits was used up: score the episode as it is or exclude it. The wall clock "
          "always excludes.",
          one_of({"score", "exclude"}));
  }
};
FailurePolicy failure_policy(const FailuresConfig& config);

}  // namespace stoker
