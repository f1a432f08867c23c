#include "async/timeout.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/scope.h"
#include "async/testing.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<int> give_after(Duration delay, int value) {
  co_await sleep_for(delay);
  co_return value;
}
Task<int> fail_after(Duration delay) {
  co_await sleep_for(delay);
  throw std::runtime_error("broken");
}
Task<int> give_in_spite_of_cancellation(int value) {
  try {
    co_await sleep_for(1h);
  } catch (const Cancelled&) {
  }
  co_return value;
}
Task<> clean_up_slowly(bool* ended) {
  std::optional<CancelReason> reason;
  try {
    co_await sleep_for(1h);
  } catch (const Cancelled& cancelled) {
    reason = cancelled.reason();
  }
  co_await shielded(sleep_for(5ms));
  *ended = true;
  throw Cancelled(*reason);
}

CO_TEST(Sleep, TakesItsTime) {
  Executor& executor = co_await current_executor();
  const TimePoint begin = executor.now();
  co_await sleep_for(2ms);
  EXPECT_GE(executor.now() - begin, 2ms);
  co_await sleep_until(begin + 3ms);
  EXPECT_GE(executor.now() - begin, 3ms);
  co_await sleep_until(begin);  // passed long ago
  co_await sleep_for(-1s);
}

CO_TEST_SIMULATED(Sleep, VirtualTimeIsExactAndFree) {
  Executor& executor = co_await current_executor();
  co_await sleep_for(24h * 365);
  EXPECT_EQ(executor.now(), TimePoint(24h * 365));
}

CO_TEST(Timeout, GivesTheValueInTime) {
  EXPECT_EQ(co_await with_timeout(1h, give_after(1ms, 7)), 7);
  EXPECT_TRUE(co_await with_timeout(1h, sleep_for(1ms)));
  Executor& executor = co_await current_executor();
  EXPECT_EQ(co_await with_deadline(executor.now() + 1h, give_after(0ms, 8)), 8);
}

CO_TEST(Timeout, GivesNothingAtTheDeadline) {
  EXPECT_EQ(co_await with_timeout(1ms, give_after(1h, 7)), std::nullopt);
  EXPECT_FALSE(co_await with_timeout(1ms, sleep_for(1h)));
  Executor& executor = co_await current_executor();
  EXPECT_EQ(co_await with_deadline(executor.now() + 1ms, give_after(1h, 8)), std::nullopt);
}

CO_TEST(Timeout, WaitsForTheTaskToEnd) {
  bool ended = false;
  EXPECT_FALSE(co_await with_timeout(1ms, clean_up_slowly(&ended)));
  EXPECT_TRUE(ended);
}

CO_TEST(Timeout, KeepsAValueGivenInSpiteOfTheCancellation) {
  EXPECT_EQ(co_await with_timeout(1ms, give_in_spite_of_cancellation(9)), 9);
}

CO_TEST(Timeout, LetsExceptionsThrough) {
  EXPECT_THROW(co_await with_timeout(1h, fail_after(0ms)), std::runtime_error);
}

CO_TEST(Timeout, OuterCancellationComesOutAsCancelled) {
  CancellationSource source;
  auto timer = (co_await current_executor()).post_at((co_await current_executor()).now() + 1ms, [&source] {
    source.request(CancelReason::kShutdown);
  });
  std::optional<CancelReason> reason;
  try {
    co_await with_cancellation(source.token(), with_timeout(1h, give_after(1h, 1)));
  } catch (const Cancelled& cancelled) {
    reason = cancelled.reason();
  }
  EXPECT_EQ(reason, CancelReason::kShutdown);
}

CO_TEST(Timeout, InnerDeadlineFirstThenOuter) {
  const std::optional<std::optional<int>> inner =
      co_await with_timeout(1h, with_timeout(1ms, give_after(1h, 1)));
  CO_ASSERT_TRUE(inner.has_value());
  EXPECT_FALSE(inner->has_value());
  EXPECT_EQ(co_await with_timeout(1ms, with_timeout(1h, give_after(1h, 1))), std::nullopt);
}

// The task's own Cancelled (from elsewhere) is no deadline.
CO_TEST(Timeout, ForeignCancellationIsNotMistakenForTheDeadline) {
  CancellationSource source;
  source.request(CancelReason::kRequested);
  EXPECT_THROW(co_await with_timeout(1h, with_cancellation(source.token(), give_after(1h, 1))), Cancelled);
}

Task<> expire(Duration limit, int* expired) {
  if (!co_await with_timeout(limit, sleep_for(1h))) ++*expired;
}

CO_TEST_SIMULATED(Timeout, ManyWaitAtOnce) {
  int expired = 0;
  Scope scope(co_await current_executor());
  for (int task = 0; task < 2000; ++task) scope.spawn(expire(Duration(task % 100), &expired));
  co_await scope.join();
  EXPECT_EQ(expired, 2000);
}

TEST(Timeout, ATaskInTimeLeavesNoTimerBehind) {
  SimulatedExecutor executor(1);
  EXPECT_EQ(run(executor, with_timeout(1h, give_after(1ms, 3))), 3);
  executor.run_until_idle();
  EXPECT_EQ(executor.now(), TimePoint(1ms));
}

}  // namespace
}  // namespace stoker
