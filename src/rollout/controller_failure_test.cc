#include "rollout/controller.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "rollout/controller_test_support.h"
#include "rollout/failure_policy.h"

namespace stoker {
namespace {

using Kind = DecisionKind;

TEST(Controller, AFailedPlaceIsRefilledWithinTheBudgetThenTheGroupShrinks) {
  Controller controller({.total_steps = 1,
                         .group_size = 3,
                         .max_concurrent_episodes = 3,
                         .max_attempts = 1,
                         .failed_members = FailedMemberPolicy::kRefill,
                         .max_refills = 2});
  controller.handle(started());
  controller.handle(trainer_ready());
  const std::vector<Decision> first = controller.handle(failed({0, 1}, "environment.timeout"));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0], (Decision{.kind = Kind::kStartEpisode, .episode = {0, 1, 1}}));
  // Also after a failure that is never tried again.
  EXPECT_EQ(of_kind(controller.handle(failed({0, 1, 1}, "limit.wall_clock")), Kind::kStartEpisode).size(),
            1u);
  EXPECT_TRUE(controller.handle(failed({0, 2}, "environment.timeout")).empty());
  EXPECT_EQ(controller.refilled_episodes(), 2);
  EXPECT_EQ(controller.retried_episodes(), 0);
  controller.handle(scored({0, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({0, 1, 2}))), (std::vector<uint64_t>{0}));
}

TEST(Controller, ATaskThatFailsEveryTimeIsSetAsideAndTheRunGoesOn) {
  Controller controller({.total_steps = 1,
                         .group_size = 2,
                         .max_concurrent_episodes = 2,
                         .max_attempts = 9,
                         .max_task_failures = 3});
  controller.handle(started());
  controller.handle(trainer_ready());
  controller.handle(failed({0, 0}, "environment.exception"));
  controller.handle(failed({0, 1}, "environment.timeout"));
  const std::vector<Decision> decisions = controller.handle(failed({0, 0, 1}, "tool.exception"));
  ASSERT_EQ(decisions.size(), 2u);  // the other member still holds its slot
  EXPECT_EQ(decisions[0],
            (Decision{.kind = Kind::kSetAside,
                      .groups = {0},
                      .reason = "3 attempts failed and none was scored, the last with tool.exception"}));
  EXPECT_EQ(decisions[1], (Decision{.kind = Kind::kCancelEpisode, .episode = {0, 1, 1}}));
  EXPECT_EQ(
      of_kind(controller.handle(failed({0, 1, 1}, "infrastructure.cancelled")), Kind::kStartEpisode).size(),
      2u);
  EXPECT_EQ(controller.set_aside_tasks(), 1);
  EXPECT_EQ(controller.dropped_groups(), 1);
  controller.handle(scored({1, 0}));
  EXPECT_EQ(consumed(controller.handle(scored({1, 1}))), (std::vector<uint64_t>{1}));
}

TEST(Controller, ATaskOfWhichOneEpisodeWasScoredIsNotSetAside) {
  Controller controller({.total_steps = 1,
                         .group_size = 2,
                         .max_concurrent_episodes = 2,
                         .max_attempts = 5,
                         .max_task_failures = 2});
  controller.handle(started());
  controller.handle(scored({0, 0}));
  for (uint32_t attempt = 0; attempt < 4; ++attempt) {
    EXPECT_EQ(controller.handle(failed({0, 1, attempt}, "tool.timeout"))[0].kind, Kind::kStartEpisode);
  }
  EXPECT_EQ(controller.set_aside_tasks(), 0);
}

TEST(Controller, RetriesWaitTwiceAsLongEachTime) {
  Controller controller(
      {.total_steps = 1, .max_concurrent_episodes = 1, .max_attempts = 9, .retry_backoff_seconds = 2});
  controller.handle(started());
  std::vector<int64_t> seconds;
  for (uint32_t attempt = 0; attempt < 7; ++attempt) {
    seconds.push_back(controller.handle(failed({0, 0, attempt}, "tool.timeout"))[0].delay / 1'000'000'000);
  }
  EXPECT_EQ(seconds, (std::vector<int64_t>{2, 4, 8, 16, 32, 60, 60}));
}

TEST(Controller, TheFailurePolicyDecidesWhatIsTriedAgain) {
  for (const char* failure :
       {"tool.timeout", "environment.timeout", "infrastructure.lost", "reward.exception"}) {
    for (FailureAction action : {FailureAction::kRetry, FailureAction::kExclude}) {
      Controller controller(
          {.total_steps = 1,
           .group_size = 2,
           .max_concurrent_episodes = 2,
           .failures = {.tool = action, .environment = action, .infrastructure = action, .reward = action}});
      controller.handle(started());
      EXPECT_EQ(controller.handle(failed({0, 0}, failure)).size(), action == FailureAction::kRetry ? 1u : 0u)
          << failure;
    }
  }
}

TEST(Controller, AGroupWithTooFewScoredMembersIsDropped) {
  Controller controller(
      {.total_steps = 1, .group_size = 3, .max_concurrent_episodes = 3, .max_attempts = 1, .min_scored = 2});
  controller.handle(started());
  controller.handle(trainer_ready());
  controller.handle(scored({0, 0}));
  controller.handle(failed({0, 1}, "reward.exception"));
  const std::vector<Decision> decisions = controller.handle(failed({0, 2}, "reward.not_finite"));
  EXPECT_EQ(decisions[0].reason, "only 1 of 3 members scored: reward.not_finite");
}

TEST(FailurePolicy, DoneAndUnknownNamesAreNotTriedAgain) {
  for (const char* name : {"", "environment", "toolbox.timeout", ".timeout", "weather.rain"}) {
    EXPECT_FALSE(FailurePolicy().retries(name)) << name;
  }
}

TEST(FailurePolicy, ActionsThatDoNotFitTheirClassAreRefused) {
  EXPECT_NO_THROW(check(FailurePolicy{}));
  EXPECT_NO_THROW(check(FailurePolicy{.tool = FailureAction::kShow, .limit = FailureAction::kExclude}));
  EXPECT_THROW(check(FailurePolicy{.environment = FailureAction::kShow}), Error);
  EXPECT_THROW(check(FailurePolicy{.reward = FailureAction::kScore}), Error);
  EXPECT_THROW(check(FailurePolicy{.limit = FailureAction::kRetry}), Error);
  EXPECT_THROW(failure_action_from_name("ignore"), Error);
  const FailurePolicy excluding{.limit = FailureAction::kExclude};
  const Failure turns{FailureClass::kLimit, "turns", ""}, clock{FailureClass::kLimit, "wall_clock", ""};
  EXPECT_TRUE(FailurePolicy{}.scores(turns));
  EXPECT_FALSE(FailurePolicy{}.scores(clock));
  EXPECT_FALSE(excluding.scores(turns));
  EXPECT_TRUE(excluding.scores(std::nullopt));
}

TEST(Controller, AWorldInWhichNothingWorksEndsTheRunAndSaysWhy) {
  Controller controller(
      {.total_steps = 1, .max_concurrent_episodes = 1, .max_attempts = 1, .max_consecutive_drops = 3});
  controller.handle(started());
  controller.handle(failed({0, 0}, "environment.timeout"));
  controller.handle(failed({1, 0}, "environment.timeout"));
  const std::vector<Decision> decisions = controller.handle(failed({2, 0}, "environment.exception"));
  EXPECT_EQ(decisions.back().kind, Kind::kGiveUp);
  EXPECT_EQ(decisions.back().reason,
            "3 groups in a row had to be dropped; the last failure was environment.exception");
}

}  // namespace
}  // namespace stoker
