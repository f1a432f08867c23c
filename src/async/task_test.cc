#include "async/task.h"

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/waiter.h"
#include "base/error.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<int> give(int value) { co_return value; }
Task<> set_flag(bool* flag) {
  *flag = true;
  co_return;
}
Task<std::unique_ptr<int>> give_pointer(int value) { co_return std::make_unique<int>(value); }
Task<int> fail_with(std::string message) {
  co_await yield_now();
  throw std::runtime_error(message);
}

TEST(Task, IsLazy) {
  bool flag = false;
  {
    Task<> task = set_flag(&flag);
    EXPECT_TRUE(task);
  }
  EXPECT_FALSE(flag);
}

struct Holder {
  std::shared_ptr<int> value;
};
Task<int> read(Holder holder) { co_return *holder.value; }

TEST(Task, UnstartedTaskDestroysItsArguments) {
  auto value = std::make_shared<int>(3);
  {
    Task<int> task = read({value});
    EXPECT_EQ(value.use_count(), 2);
    Task<int> moved = std::move(task);
    EXPECT_FALSE(task);  // NOLINT: moved from
    EXPECT_EQ(value.use_count(), 2);
    moved = read({std::make_shared<int>(4)});
    EXPECT_EQ(value.use_count(), 1);
  }
}

TEST(Task, FrameEndsWithTheAwait) {
  SimulatedExecutor executor(1);
  auto value = std::make_shared<int>(3);
  EXPECT_EQ(run(executor, read({value})), 3);
  EXPECT_EQ(value.use_count(), 1);
}

CO_TEST(Task, GivesValues) {
  EXPECT_EQ(co_await give(5), 5);
  Task<int> later = give(6);
  EXPECT_EQ(co_await std::move(later), 6);
  const std::unique_ptr<int> pointer = co_await give_pointer(7);
  EXPECT_EQ(*pointer, 7);
}

CO_TEST(Task, ExceptionsComeOutOfTheAwait) {
  std::string message;
  try {
    co_await fail_with("broken");
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "broken");
}

Task<int64_t> sum_of_ready(int64_t count) {
  int64_t sum = 0;
  for (int64_t index = 0; index < count; ++index) sum += co_await give(1);
  co_return sum;
}

TEST(Task, AMillionReadyAwaitsDoNotGrowTheStack) {
  SimulatedExecutor executor(1);
  EXPECT_EQ(run(executor, sum_of_ready(1'000'000)), 1'000'000);
}

Task<int> depth(int left) {
  if (left == 0) co_return 0;
  co_return 1 + co_await depth(left - 1);
}

// Both the way down and the way back are transfers, not calls.
TEST(Task, DeepRecursionDoesNotGrowTheStack) {
  SimulatedExecutor executor(1);
  EXPECT_EQ(run(executor, depth(200'000)), 200'000);
}

CO_TEST(Task, ContextFlowsToAwaitedTasks) {
  struct Inner {
    static Task<Executor*> executor() { co_return &co_await current_executor(); }
    static Task<std::string> name() {
      co_await name_task("renamed");
      co_await yield_now();
      co_return running_task()->name();
    }
  };
  Executor& executor = co_await current_executor();
  EXPECT_EQ(co_await Inner::executor(), &executor);
  EXPECT_EQ(running_task()->name(), "main");
  EXPECT_EQ(co_await Inner::name(), "renamed");
  EXPECT_FALSE((co_await current_cancellation()).requested());
}

TEST(Run, GivesValueExceptionAndRunsTwice) {
  SimulatedExecutor executor(1);
  EXPECT_EQ(run(executor, give(1)), 1);
  EXPECT_EQ(*run(executor, give_pointer(2)), 2);
  EXPECT_THROW(run(executor, fail_with("x")), std::runtime_error);
  bool flag = false;
  run(executor, set_flag(&flag));
  EXPECT_TRUE(flag);
  EXPECT_TRUE(executor.tasks().empty());
}

TEST(Run, TokenCancelsTheTask) {
  SimulatedExecutor executor(1);
  CancellationSource source;
  auto timer = executor.post_at(TimePoint(1s), [&] { source.request(CancelReason::kShutdown); });
  try {
    run(executor, sleep_for(1h), source.token());
    FAIL() << "the task ended without Cancelled";
  } catch (const Cancelled& cancelled) {
    EXPECT_EQ(cancelled.reason(), CancelReason::kShutdown);
  }
  EXPECT_EQ(executor.now(), TimePoint(1s));
}

CO_TEST(Task, AwaitingATaskThatWasMovedFromIsAnError) {
  Task<int> task = give(1);
  EXPECT_EQ(co_await std::move(task), 1);
  // NOLINTNEXTLINE(bugprone-use-after-move): the point of the test
  EXPECT_THROW(co_await std::move(task), Error);
}

Task<> wait_in_scope() {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(sleep_for(1h), "child");
  scope.spawn(shielded(sleep_for(2h)), "shielded child");
  co_await scope.join();
}

TEST(Run, WhatATimerOrPostedWorkThrowsComesOutAndTearsDown) {
  SimulatedExecutor simulated(1);
  RealExecutor real;
  for (Executor* executor : std::initializer_list<Executor*>{&simulated, &real}) {
    auto timer = executor->post_at(executor->now() + 1ms, [] { throw std::runtime_error("from a timer"); });
    EXPECT_THROW(run(*executor, wait_in_scope()), std::runtime_error);
    EXPECT_TRUE(executor->tearing_down());
    EXPECT_TRUE(executor->tasks().empty());
  }
  SimulatedExecutor other(1);
  other.post([] { throw std::runtime_error("from work"); });
  EXPECT_THROW(run(other, wait_in_scope()), std::runtime_error);
  EXPECT_TRUE(other.tasks().empty());
}

TEST(Duration, FromSecondsStaysInRange) {
  EXPECT_EQ(from_seconds(1.5), Duration(1'500'000'000));
  EXPECT_EQ(from_seconds(-1.5), Duration(-1'500'000'000));
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::infinity()), kLongestDuration);
  EXPECT_EQ(from_seconds(1e300), kLongestDuration);
  EXPECT_EQ(from_seconds(-1e300), -kLongestDuration);
  EXPECT_GT(TimePoint(24h) + from_seconds(1e300), TimePoint(24h));
  EXPECT_THROW(from_seconds(std::numeric_limits<double>::quiet_NaN()), Error);
}

}  // namespace
}  // namespace stoker
