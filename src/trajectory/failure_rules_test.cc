#include "trajectory/failure_rules.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(FailureRules, EveryClassHasItsRule) {
  struct Expected {
    FailureClass failure_class;
    bool worlds_fault, scored;
  };
  for (const Expected& expected :
       {Expected{FailureClass::kPolicy, false, true}, Expected{FailureClass::kLimit, false, true},
        Expected{FailureClass::kTool, true, false}, Expected{FailureClass::kEnvironment, true, false},
        Expected{FailureClass::kReward, true, false}, Expected{FailureClass::kInfrastructure, true, false}}) {
    const Failure failure{expected.failure_class, "timeout", ""};
    SCOPED_TRACE(failure.name());
    EXPECT_EQ(is_worlds_fault(failure), expected.worlds_fault);
    EXPECT_EQ(is_scored_ending(failure), expected.scored);
  }
}

TEST(FailureRules, TheWallClockIsNobodysFault) {
  const Failure failure{FailureClass::kLimit, "wall_clock", ""};
  EXPECT_FALSE(is_worlds_fault(failure));
  EXPECT_FALSE(is_scored_ending(failure));
}

TEST(FailureRules, DoneIsScored) { EXPECT_TRUE(is_scored_ending(std::nullopt)); }

}  // namespace
}  // namespace stoker
