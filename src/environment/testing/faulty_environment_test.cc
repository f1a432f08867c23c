#include "environment/testing/faulty_environment.h"

#include <gtest/gtest.h>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/timeout.h"
#include "environment/testing/test_pool.h"

namespace stoker::testing {
namespace {

using std::chrono::seconds;

// Runs one whole episode of the kind without any care, and gives the reward.
Task<double> whole_episode(const FaultyEnvironmentKind& kind, uint64_t ordinal) {
  TaskRow task = kind.training_tasks(1)->task(ordinal);
  std::unique_ptr<Environment> environment = kind.make(test_pool());
  Result<Observation> observation = co_await environment->reset(task, 0);
  std::vector<Message> messages = observation->messages;
  Action action;
  while (!observation->done) {
    observation = co_await environment->step(action);
    messages.insert(messages.end(), observation->messages.begin(), observation->messages.end());
  }
  co_await environment->close();
  EpisodeRecord record;
  EpisodeView view{task, messages, record, test_pool()};
  Result<RewardResult> reward = co_await kind.rewards().front()->score(view);
  co_return reward->reward;
}

FaultyEnvironmentKind kind_with(FaultPlan plan) {
  return FaultyEnvironmentKind([plan](const TaskRow&, int32_t) { return plan; });
}

TEST(FaultyEnvironment, WithoutFaultsAnEpisodeRunsToItsEnd) {
  SimulatedExecutor executor(1);
  FaultyEnvironmentKind kind = kind_with({.turns = 3});
  EXPECT_EQ(run(executor, whole_episode(kind, 4)), 1.0);
  const FaultyCounts& counts = kind.counts();
  EXPECT_EQ(counts.made, 1);
  EXPECT_EQ(counts.destroyed, 1);
  EXPECT_EQ(counts.resets, 1);
  EXPECT_EQ(counts.steps, 3);
  EXPECT_EQ(counts.closes, 1);
  EXPECT_EQ(counts.scores, 1);
  EXPECT_EQ(counts.closed_again + counts.used_closed + counts.lost_unclosed, 0);
}

TEST(FaultyEnvironment, BrokenContractsAreCounted) {
  SimulatedExecutor executor(1);
  FaultyEnvironmentKind kind = kind_with({});
  TaskRow task = kind.training_tasks(1)->task(0);
  kind.make(test_pool());
  EXPECT_EQ(kind.counts().lost_unclosed, 1);
  auto environment = kind.make(test_pool());
  run(executor, environment->close());
  run(executor, environment->close());
  EXPECT_EQ(kind.counts().closed_again, 1);
  EXPECT_TRUE(run(executor, environment->reset(task, 0)).ok());
  EXPECT_EQ(kind.counts().used_closed, 1);
}

TEST(FaultyEnvironment, EveryPlaceCanFailInEveryWay) {
  SimulatedExecutor executor(1);
  for (Fault fault : {Fault::kThrow, Fault::kThrowForeign, Fault::kFail}) {
    FaultyEnvironmentKind kind =
        kind_with({.reset = fault, .step = fault, .tool = fault, .close = fault, .reward = fault});
    TaskRow task = kind.training_tasks(1)->task(0);
    auto environment = kind.make(test_pool());
    Action action;
    std::vector<Message> messages;
    EpisodeRecord record;
    EpisodeView view{task, messages, record, test_pool()};
    auto rewards = kind.rewards();
    if (fault == Fault::kFail) {
      EXPECT_EQ(run(executor, environment->reset(task, 0)).failure().name(), "environment.planted");
      EXPECT_EQ(run(executor, environment->step(action)).failure().name(), "environment.planted");
      EXPECT_EQ(run(executor, environment->tools()[0]->call(Json())).failure().name(), "tool.planted");
      EXPECT_EQ(run(executor, rewards[0]->score(view)).failure().name(), "reward.planted");
      EXPECT_THROW(run(executor, environment->close()), std::runtime_error);
    } else {
      EXPECT_ANY_THROW(static_cast<void>(run(executor, environment->reset(task, 0))));
      EXPECT_ANY_THROW(static_cast<void>(run(executor, environment->step(action))));
      EXPECT_ANY_THROW(static_cast<void>(run(executor, environment->tools()[0]->call(Json()))));
      EXPECT_ANY_THROW(static_cast<void>(run(executor, rewards[0]->score(view))));
      EXPECT_ANY_THROW(run(executor, environment->close()));
    }
    EXPECT_EQ(kind.counts().closes, 1);
  }
}

TEST(FaultyEnvironment, FaultsFollowTheSchedule) {
  SimulatedExecutor executor(1);
  FaultyEnvironmentKind kind([](const TaskRow& task, int32_t nth) {
    bool first_of_task_1 = task.id == "faulty/1" && nth == 0;
    return FaultPlan{.reset = first_of_task_1 ? Fault::kThrow : Fault::kNone};
  });
  EXPECT_EQ(run(executor, whole_episode(kind, 0)), 1.0);
  EXPECT_ANY_THROW(static_cast<void>(run(executor, whole_episode(kind, 1))));
  EXPECT_EQ(run(executor, whole_episode(kind, 1)), 1.0);
}

TEST(FaultyEnvironment, StepsFailFromTheirTurnOn) {
  SimulatedExecutor executor(1);
  FaultyEnvironmentKind kind = kind_with({.step = Fault::kFail, .step_turn = 1, .turns = 3});
  auto environment = kind.make(test_pool());
  TaskRow task = kind.training_tasks(1)->task(0);
  Action action;
  EXPECT_TRUE(run(executor, environment->reset(task, 0)).ok());
  EXPECT_TRUE(run(executor, environment->step(action)).ok());
  EXPECT_FALSE(run(executor, environment->step(action)).ok());
  run(executor, environment->close());
}

Task<bool> reset_within(Environment& environment, const TaskRow& task, Duration limit) {
  auto observation = co_await with_timeout(limit, environment.reset(task, 0));
  co_return observation.has_value();
}

TEST(FaultyEnvironment, HangsHeedCancellationAndSleepsEnd) {
  SimulatedExecutor executor(1);
  FaultyEnvironmentKind hanging = kind_with({.reset = Fault::kHang});
  TaskRow task = hanging.training_tasks(1)->task(0);
  auto environment = hanging.make(test_pool());
  EXPECT_FALSE(run(executor, reset_within(*environment, task, seconds(5))));
  FaultyEnvironmentKind sleeping = kind_with({.reset = Fault::kSleep, .delay = seconds(3)});
  auto slow = sleeping.make(test_pool());
  EXPECT_FALSE(run(executor, reset_within(*slow, task, seconds(2))));
  EXPECT_TRUE(run(executor, reset_within(*slow, task, seconds(4))));
  run(executor, environment->close());
  run(executor, slow->close());
}

Task<bool> reset_and_release(FaultyEnvironmentKind& kind, Environment& environment, const TaskRow& task) {
  kind.counts().release.set();
  co_return co_await reset_within(environment, task, seconds(1));
}

TEST(FaultyEnvironment, HardHangsEndOnlyWhenReleased) {
  FaultyEnvironmentKind kind = kind_with({.reset = Fault::kHangHard});
  TaskRow task = kind.training_tasks(1)->task(0);
  auto environment = kind.make(test_pool());
  {
    SimulatedExecutor executor(1);
    EXPECT_THROW(run(executor, reset_within(*environment, task, seconds(5))), StuckError);
  }
  SimulatedExecutor executor(2);
  EXPECT_TRUE(run(executor, reset_and_release(kind, *environment, task)));
  run(executor, environment->close());
}

}  // namespace
}  // namespace stoker::testing
