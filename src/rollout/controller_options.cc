#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "rollout/controller.h"
#include "rollout/controller_check.h"
#include "rollout/option_check.h"

namespace stoker {
namespace {

template <typename T>
using Names = std::span<const std::pair<T, const char*>>;

constexpr std::array kOrders = {std::pair{BatchOrder::kOldestFirst, "oldest"},
                                std::pair{BatchOrder::kCompletion, "completion"},
                                std::pair{BatchOrder::kStrict, "strict"}};
constexpr std::array kActions = {
    std::pair{StaleAction::kDrop, "drop"}, std::pair{StaleAction::kCancel, "cancel"},
    std::pair{StaleAction::kWait, "wait"}, std::pair{StaleAction::kMask, "mask"}};
constexpr std::array kBoundaries = {std::pair{UpdateBoundary::kToken, "token"},
                                    std::pair{UpdateBoundary::kTurn, "turn"},
                                    std::pair{UpdateBoundary::kBarrier, "barrier"}};
constexpr std::array kPolicies = {std::pair{FailedMemberPolicy::kShrink, "shrink"},
                                  std::pair{FailedMemberPolicy::kDrop, "drop"},
                                  std::pair{FailedMemberPolicy::kRefill, "refill"}};

template <typename T>
const char* name_of(Names<T> names, T value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  throw internal_error("A choice of the controller has no name.");
}

template <typename T>
T from_name(Names<T> names, const char* what, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [value, text] : names) {
    if (name == text) return value;
    known.emplace_back(text);
  }
  throw input_error(fmt::format("{} is '{}'; it may be {}.", what, name, fmt::join(known, ", ")));
}

}  // namespace

void check(const ControllerOptions& options) {
  check_at_least("total_steps", options.total_steps, 0);
  check_at_least("groups_per_batch", options.groups_per_batch, 1);
  check_at_least("group_size", options.group_size, 1);
  check_at_least("max_ahead", options.max_ahead, 0);
  if (options.adaptive_depth && options.max_ahead < 2) {
    throw input_error(fmt::format(
        "adaptive_depth is true and max_ahead, the most that it may find, is {}: between 1 and that "
        "there is nothing to find; raise max_ahead to at least 2, or set adaptive_depth to false.",
        options.max_ahead));
  }
  check_at_least("extra_groups", options.extra_groups, 0);
  if (options.adaptive_depth && options.extra_groups > 0) {
    throw input_error(fmt::format(
        "adaptive_depth is true and extra_groups is {}: groups beyond the depth would be taken for what the "
        "depth brings; set one of them to its default.",
        options.extra_groups));
  }
  if (options.batch_order == BatchOrder::kStrict && options.extra_groups > 0 && options.max_ahead == 0 &&
      options.max_staleness == 0) {
    throw input_error(
        fmt::format("extra_groups is {} and batch_order is strict at max_ahead 0 and max_staleness 0: strict "
                    "order trains "
                    "those that were dispatched first, and the rest would be generated to be dropped; set "
                    "extra_groups to "
                    "0, or batch_order to oldest or completion.",
                    options.extra_groups));
  }
  check_at_least("max_staleness", options.max_staleness, 0);
  check_at_least("max_attempts", options.max_attempts, 1);
  check_at_least("max_consecutive_drops", options.max_consecutive_drops, 1);
  check_at_least("max_refills", options.max_refills, 0);
  check_at_least("min_scored", options.min_scored, 1);
  check_at_least("max_task_failures", options.max_task_failures, 1);
  check(options.failures);
  if (!(options.retry_backoff_seconds >= 0 && options.retry_backoff_seconds <= kMostBackoffSeconds)) {
    throw input_error(fmt::format("retry_backoff_seconds is {}; it must be from 0 to {}.",
                                  options.retry_backoff_seconds, kMostBackoffSeconds));
  }
  if (options.min_scored > options.group_size) {
    throw input_error(fmt::format("min_scored is {}, more than group_size {}: every group would be dropped.",
                                  options.min_scored, options.group_size));
  }
  if (options.max_concurrent_episodes < options.group_size) {
    throw input_error(fmt::format(
        "max_concurrent_episodes is {}, less than group_size {}: no group could ever start; raise "
        "max_concurrent_episodes to at least {}.",
        options.max_concurrent_episodes, options.group_size, options.group_size));
  }
}

const char* to_string(BatchOrder order) { return name_of<BatchOrder>(kOrders, order); }
const char* to_string(StaleAction action) { return name_of<StaleAction>(kActions, action); }
const char* to_string(UpdateBoundary boundary) { return name_of<UpdateBoundary>(kBoundaries, boundary); }
const char* to_string(FailedMemberPolicy policy) { return name_of<FailedMemberPolicy>(kPolicies, policy); }

BatchOrder batch_order_from_name(const std::string& name) {
  return from_name<BatchOrder>(kOrders, "batch_order", name);
}
StaleAction stale_action_from_name(const std::string& name) {
  return from_name<StaleAction>(kActions, "stale_action", name);
}
UpdateBoundary update_boundary_from_name(const std::string& name) {
  return from_name<UpdateBoundary>(kBoundaries, "update_boundary", name);
}
FailedMemberPolicy failed_member_policy_from_name(const std::string& name) {
  return from_name<FailedMemberPolicy>(kPolicies, "failed_members", name);
}

}  // namespace stoker
