#include "trajectory/failure_rules.h"

namespace stoker {

bool is_worlds_fault(const Failure& failure) {
  return failure.failure_class != FailureClass::kPolicy && failure.failure_class != FailureClass::kLimit;
}

bool is_scored_ending(const std::optional<Failure>& failure) {
  if (!failure) return true;
  if (failure->failure_class == FailureClass::kLimit && failure->reason == "wall_clock") return false;
  return !is_worlds_fault(*failure);
}

}  // namespace stoker
