#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "rollout/controller.h"

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
constexpr std::array kPolicies = {std::pair{FailedMemberPolicy::kShrink, "shrink"},
                                  std::pair{FailedMemberPolicy::kDrop, "drop"}};

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

const char* to_string(BatchOrder order) { return name_of<BatchOrder>(kOrders, order); }
const char* to_string(StaleAction action) { return name_of<StaleAction>(kActions, action); }
const char* to_string(FailedMemberPolicy policy) { return name_of<FailedMemberPolicy>(kPolicies, policy); }

BatchOrder batch_order_from_name(const std::string& name) {
  return from_name<BatchOrder>(kOrders, "batch_order", name);
}
StaleAction stale_action_from_name(const std::string& name) {
  return from_name<StaleAction>(kActions, "stale_action", name);
}
FailedMemberPolicy failed_member_policy_from_name(const std::string& name) {
  return from_name<FailedMemberPolicy>(kPolicies, "failed_members", name);
}

}  // namespace stoker
