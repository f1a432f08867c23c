#include "base/result.h"

namespace stoker {

const char* to_string(FailureClass failure_class) {
  switch (failure_class) {
    case FailureClass::kPolicy:
      return "policy";
    case FailureClass::kLimit:
      return "limit";
    case FailureClass::kTool:
      return "tool";
    case FailureClass::kEnvironment:
      return "environment";
    case FailureClass::kReward:
      return "reward";
    case FailureClass::kInfrastructure:
      return "infrastructure";
  }
  throw internal_error("A FailureClass holds a value outside its enumeration.");
}

std::optional<FailureClass> failure_class_from_string(const std::string& name) {
  for (FailureClass failure_class :
       {FailureClass::kPolicy, FailureClass::kLimit, FailureClass::kTool, FailureClass::kEnvironment,
        FailureClass::kReward, FailureClass::kInfrastructure}) {
    if (name == to_string(failure_class)) return failure_class;
  }
  return std::nullopt;
}

}  // namespace stoker
