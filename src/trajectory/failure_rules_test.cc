#include "trajectory/failure_rules.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(FailureRules, EveryClassHasItsRule) {
  struct Expected {
    FailureClass failure_class;
    bool worlds_fault, retried, scored;
  };
  for (const Expected& expected :
       {Expected{FailureClass::kPolicy, false, false, true},
        Expected{FailureClass::kLimit, false, false, true}, Expected{FailureClass::kTool, true, true, false},
        Expected{FailureClass::kEnvironment, true, true, false},
        Expected{FailureClass::kReward, true, false, false},
        Expected{FailureClass::kInfrastructure, true, true, false}}) {
    const Failure failure{expected.failure_class, "timeout", ""};
    SCOPED_TRACE(failure.name());
    EXPECT_EQ(is_worlds_fault(failure), expected.worlds_fault);
    EXPECT_EQ(may_be_retried(failure.name()), expected.retried);
    EXPECT_EQ(is_scored_ending(failure), expected.scored);
  }
}

TEST(FailureRules, TheWallClockIsNobodysFault) {
  const Failure failure{FailureClass::kLimit, "wall_clock", ""};
  EXPECT_FALSE(is_worlds_fault(failure));
  EXPECT_FALSE(may_be_retried(failure.name()));
  EXPECT_FALSE(is_scored_ending(failure));
}

TEST(FailureRules, DoneIsScoredAndUnknownNamesAreNotRetried) {
  EXPECT_TRUE(is_scored_ending(std::nullopt));
  for (const char* name : {"", "environment", "toolbox.timeout", ".timeout", "weather.rain"}) {
    EXPECT_FALSE(may_be_retried(name)) << name;
  }
}

}  // namespace
}  // namespace stoker
