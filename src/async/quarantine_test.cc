#include "async/quarantine.h"

#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<> fail_after(Duration delay) {
  co_await sleep_for(delay);
  throw std::runtime_error("broken");
}
// Hangs and heeds no cancellation; owns something, to see that it is destroyed.
Task<> hang(std::shared_ptr<int> owned) {
  co_await shielded(sleep_for(1000h));
  *owned = 0;
}
Task<> hang_with_a_scope(std::shared_ptr<int> owned) {
  Scope scope(co_await current_executor());
  scope.spawn(hang(owned));
  co_await scope.join();
}

CO_TEST(Quarantine, CleanUpInTimeIsFinished) {
  Quarantine quarantine(co_await current_executor());
  EXPECT_TRUE(co_await quarantine.finish_or_abandon(1h, sleep_for(1ms)));
  EXPECT_THROW(co_await quarantine.finish_or_abandon(1h, fail_after(0ms)), std::runtime_error);
  EXPECT_EQ(quarantine.abandoned(), 0u);
  EXPECT_EQ(co_await quarantine.shut_down(1h), 0u);
}

Task<> clean_up(Quarantine* quarantine, bool* finished) {
  *finished = co_await quarantine->finish_or_abandon(1h, sleep_for(2ms), "close");
  co_await yield_now();
}

CO_TEST(Quarantine, TheCallersCancellationDoesNotReachTheCleanUp) {
  Quarantine quarantine(co_await current_executor());
  bool finished = false;
  Scope scope(co_await current_executor());
  scope.spawn(clean_up(&quarantine, &finished));
  scope.cancel();
  co_await scope.join();
  EXPECT_TRUE(finished);
}

CO_TEST_SIMULATED(Quarantine, CallerGoesOnPastTheDeadline) {
  Quarantine quarantine(co_await current_executor());
  // This one heeds the request that comes with the deadline.
  EXPECT_FALSE(co_await quarantine.finish_or_abandon(1ms, sleep_for(1h)));
  EXPECT_EQ(quarantine.abandoned(), 1u);
  EXPECT_EQ(quarantine.held(), 1u);
  co_await sleep_for(1ms);
  EXPECT_EQ(quarantine.abandoned(), 1u);
  EXPECT_EQ(quarantine.held(), 0u);
  // This one fails later, with nobody to tell.
  EXPECT_FALSE(co_await quarantine.finish_or_abandon(1ms, shielded(fail_after(2ms))));
  EXPECT_EQ(co_await quarantine.shut_down(1h), 0u);
  EXPECT_EQ(quarantine.abandoned(), 2u);
}

CO_TEST_SIMULATED(Quarantine, ATaskIsToldAtItsLimitAndAbandonedAfterTheGrace) {
  Executor& executor = co_await current_executor();
  Quarantine quarantine(executor);
  const Quarantine::Limits limits{.limit = 3s, .grace = 5s};
  const Duration start = executor.now().time_since_epoch();
  EXPECT_THROW(co_await quarantine.finish_or_abandon(limits, sleep_for(1h), "heeds", {}), Cancelled);
  EXPECT_EQ(executor.now().time_since_epoch() - start, 3s);
  EXPECT_TRUE(co_await quarantine.finish_or_abandon(limits, shielded(sleep_for(7s)), "late", {}));
  EXPECT_EQ(executor.now().time_since_epoch() - start, 10s);
  EXPECT_EQ(quarantine.abandoned(), 0u);
  EXPECT_FALSE(co_await quarantine.finish_or_abandon(limits, hang(std::make_shared<int>(1)), "hangs", {}));
  EXPECT_EQ(executor.now().time_since_epoch() - start, 18s);
  EXPECT_EQ(quarantine.held(), 1u);
}

Task<> set(bool* flag) {
  *flag = true;
  co_return;
}

CO_TEST(Quarantine, ATaskThatNeedsNoWaitEndsBeforeOtherReadyWork) {
  Executor& executor = co_await current_executor();
  Quarantine quarantine(executor);
  bool others_ran = false;
  bool ran = false;
  executor.post([&others_ran] { others_ran = true; });
  EXPECT_TRUE(co_await quarantine.finish_or_abandon(1h, set(&ran)));
  EXPECT_TRUE(ran);
  EXPECT_FALSE(others_ran);
  co_await sleep_for(1ms);
  EXPECT_TRUE(others_ran);
}

Task<> work_on(std::shared_ptr<bool> done) {
  co_await shielded(sleep_for(3ms));
  *done = true;
}

CO_TEST_SIMULATED(Quarantine, QUE_13_WhatNobodyWaitsForRunsToItsEnd) {
  auto done = std::make_shared<bool>(false);
  Quarantine quarantine(co_await current_executor());
  EXPECT_FALSE(co_await quarantine.finish_or_abandon(1ms, work_on(done)));
  EXPECT_FALSE(*done);
  EXPECT_EQ(co_await quarantine.shut_down(1h), 0u);
  EXPECT_TRUE(*done);
  EXPECT_EQ(done.use_count(), 1);
}

Task<> cancelled_caller(Quarantine* quarantine, bool tell_at_once, Duration* ended) {
  Executor& executor = co_await current_executor();
  EXPECT_FALSE(co_await quarantine->finish_or_abandon(
      {.limit = 1000h}, hang(std::make_shared<int>(1)), "call",
      {.token = co_await current_cancellation(), .grace = 5s, .tell_at_once = tell_at_once}));
  *ended = executor.now().time_since_epoch();
}

CO_TEST_SIMULATED(Quarantine, AGraceAfterTheCancellationTheCallerGoesOn) {
  Executor& executor = co_await current_executor();
  for (const bool tell_at_once : {true, false}) {
    Quarantine quarantine(executor);
    const Duration start = executor.now().time_since_epoch();
    Duration ended{};
    (void)co_await with_timeout(7s, cancelled_caller(&quarantine, tell_at_once, &ended));
    EXPECT_EQ(ended - start, 12s);
    EXPECT_EQ(quarantine.held(), 1u);
  }
}

Task<> heeding_caller(Quarantine* quarantine, bool tell_at_once, Duration* ended) {
  Executor& executor = co_await current_executor();
  bool in_time = true;
  try {
    in_time = co_await quarantine->finish_or_abandon(
        {.limit = 1000h}, sleep_for(500h), "call",
        {.token = co_await current_cancellation(), .grace = 5s, .tell_at_once = tell_at_once});
  } catch (const Cancelled&) {
    EXPECT_TRUE(tell_at_once);
  }
  EXPECT_EQ(in_time, tell_at_once);
  *ended = executor.now().time_since_epoch();
}

CO_TEST_SIMULATED(Quarantine, ATaskThatIsToldMayEndBeforeTheGrace) {
  Executor& executor = co_await current_executor();
  for (const bool tell_at_once : {true, false}) {
    Quarantine quarantine(executor);
    const Duration start = executor.now().time_since_epoch();
    Duration ended{};
    (void)co_await with_timeout(7s, heeding_caller(&quarantine, tell_at_once, &ended));
    EXPECT_EQ(ended - start, tell_at_once ? Duration(7s) : Duration(12s));
  }
}

CO_TEST(Quarantine, WhatHangsIsDestroyedAtTheEnd) {
  auto owned = std::make_shared<int>(1);
  {
    Quarantine quarantine(co_await current_executor());
    EXPECT_FALSE(co_await quarantine.finish_or_abandon(1ms, hang(owned)));
    EXPECT_FALSE(co_await quarantine.finish_or_abandon(1ms, hang_with_a_scope(owned)));
    EXPECT_EQ(co_await quarantine.shut_down(1ms), 2u);
    EXPECT_GT(owned.use_count(), 1);
  }
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_EQ(*owned, 1);
}

// The frame of a waiting caller is destroyed (a simulation that found a deadlock): the clean-up must not wake
// it.
TEST(Quarantine, CallerMayBeDestroyedWhileItWaits) {
  Event never("never");
  SimulatedExecutor executor(1);
  auto quarantine = std::make_unique<Quarantine>(executor);
  {
    Scope scope(executor);
    bool finished = false;
    scope.spawn(clean_up(quarantine.get(), &finished));
    bool waited = false;
    auto timer = executor.post_at(TimePoint(1ms), [&waited] { waited = true; });
    executor.run_until(waited);
    executor.tear_down(true);
  }
  executor.tear_down(false);
  executor.run_until_idle();
  EXPECT_EQ(quarantine->abandoned(), 0u);
}

}  // namespace
}  // namespace stoker
