#include "rollout/failure_policy.h"

#include <array>
#include <initializer_list>

#include <fmt/core.h>

#include "base/error.h"
#include "trajectory/failure_rules.h"

namespace stoker {
namespace {

constexpr std::array kActionNames = {"retry", "exclude", "show", "score"};

void check_class(const char* name, FailureAction action, std::initializer_list<FailureAction> fitting) {
  std::string known;
  for (FailureAction fits : fitting) {
    if (action == fits) return;
    known += (known.empty() ? "" : ", ") + std::string(to_string(fits));
  }
  throw input_error(fmt::format("A failure of class {} cannot lead to '{}'; it may be {}.", name,
                                to_string(action), known));
}

}  // namespace

bool FailurePolicy::retries(std::string_view failure) const {
  const size_t dot = failure.find('.');
  if (dot == std::string_view::npos) return false;
  const std::optional<FailureClass> failure_class =
      failure_class_from_string(std::string(failure.substr(0, dot)));
  if (!failure_class) return false;
  switch (*failure_class) {
    case FailureClass::kTool:
      return tool == FailureAction::kRetry;
    case FailureClass::kEnvironment:
      return environment == FailureAction::kRetry;
    case FailureClass::kInfrastructure:
      return infrastructure == FailureAction::kRetry;
    case FailureClass::kReward:
      return reward == FailureAction::kRetry;
    case FailureClass::kPolicy:
    case FailureClass::kLimit:
      return false;
  }
  return false;
}

bool FailurePolicy::scores(const std::optional<Failure>& failure) const {
  if (failure && failure->failure_class == FailureClass::kLimit && limit == FailureAction::kExclude)
    return false;
  return is_scored_ending(failure);
}

void check(const FailurePolicy& policy) {
  using enum FailureAction;
  check_class("tool", policy.tool, {kRetry, kExclude, kShow});
  check_class("environment", policy.environment, {kRetry, kExclude});
  check_class("infrastructure", policy.infrastructure, {kRetry, kExclude});
  check_class("reward", policy.reward, {kRetry, kExclude});
  check_class("limit", policy.limit, {kScore, kExclude});
}

const char* to_string(FailureAction action) { return kActionNames[static_cast<size_t>(action)]; }

FailureAction failure_action_from_name(const std::string& name) {
  for (size_t i = 0; i < kActionNames.size(); ++i) {
    if (name == kActionNames[i]) return static_cast<FailureAction>(i);
  }
  throw input_error(fmt::format(
      "'{}' is nothing that a failure can lead to; it may be retry, exclude, show or score.", name));
}

}  // namespace stoker
