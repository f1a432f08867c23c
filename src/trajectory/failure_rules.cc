#include "trajectory/failure_rules.h"

#include <string>

#include "base/error.h"

namespace stoker {
namespace {

struct FailureRule {
  bool worlds_fault = false;
  bool retried = false;
  bool scored = false;
};

FailureRule rule_of(FailureClass failure_class) {
  switch (failure_class) {
    case FailureClass::kPolicy:
    case FailureClass::kLimit:
      return {.scored = true};
    case FailureClass::kTool:
    case FailureClass::kEnvironment:
    case FailureClass::kInfrastructure:
      return {.worlds_fault = true, .retried = true};
    case FailureClass::kReward:
      return {.worlds_fault = true};
  }
  throw internal_error("A FailureClass holds a value outside its enumeration.");
}

}  // namespace

bool is_worlds_fault(const Failure& failure) { return rule_of(failure.failure_class).worlds_fault; }

bool may_be_retried(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  const std::optional<FailureClass> failure_class =
      failure_class_from_string(std::string(name.substr(0, dot)));
  return failure_class && rule_of(*failure_class).retried;
}

bool is_scored_ending(const std::optional<Failure>& failure) {
  if (!failure) return true;
  if (failure->failure_class == FailureClass::kLimit && failure->reason == "wall_clock") return false;
  return rule_of(failure->failure_class).scored;
}

}  // namespace stoker
