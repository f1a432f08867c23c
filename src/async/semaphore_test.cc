#include "async/semaphore.h"

#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "base/error.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

// Takes units, notes its name, holds them for a while.
Task<> hold(Semaphore* semaphore, int64_t units, Duration time, std::vector<int>* order, int name) {
  Permit permit = co_await semaphore->acquire(units);
  order->push_back(name);
  co_await sleep_for(time);
}

CO_TEST(Semaphore, PermitsGiveUnitsBack) {
  Semaphore semaphore(3);
  {
    Permit one = co_await semaphore.acquire();
    Permit two = co_await semaphore.acquire(2);
    EXPECT_EQ(semaphore.available(), 0);
    EXPECT_FALSE(semaphore.try_acquire());
    Permit moved = std::move(two);
    EXPECT_EQ(moved.units(), 2);
    moved.release();
    moved.release();
    EXPECT_EQ(semaphore.available(), 2);
    one = *semaphore.try_acquire(2);  // the old unit goes back
    EXPECT_EQ(semaphore.available(), 1);
  }
  EXPECT_EQ(semaphore.available(), 3);
}

CO_TEST(Semaphore, LargeRequestIsNotOvertaken) {
  Semaphore semaphore(2);
  std::vector<int> order;
  Scope scope(co_await current_executor());
  Permit first = co_await semaphore.acquire();
  scope.spawn(hold(&semaphore, 2, 1ms, &order, 1));
  co_await sleep_for(1ms);
  scope.spawn(hold(&semaphore, 1, 1ms, &order, 2));
  co_await sleep_for(1ms);
  EXPECT_FALSE(semaphore.try_acquire());  // one is free, but somebody waits
  EXPECT_TRUE(order.empty());
  first.release();
  co_await scope.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

CO_TEST(Semaphore, CancelledLargeRequestLetsSmallOnesThrough) {
  Semaphore semaphore(2);
  std::vector<int> order;
  Scope large(co_await current_executor());
  Scope small(co_await current_executor());
  Permit first = co_await semaphore.acquire();
  large.spawn(hold(&semaphore, 2, 1ms, &order, 1));
  co_await sleep_for(1ms);
  small.spawn(hold(&semaphore, 1, 1ms, &order, 2));
  co_await sleep_for(1ms);
  large.cancel();
  co_await small.join();
  co_await large.join();
  EXPECT_EQ(order, std::vector<int>{2});
  EXPECT_EQ(semaphore.available(), 1);
}

CO_TEST(Semaphore, CancellationAfterTheGrantLosesNoUnits) {
  Semaphore semaphore(1);
  std::vector<int> order;
  Scope scope(co_await current_executor());
  Permit first = co_await semaphore.acquire();
  scope.spawn(hold(&semaphore, 1, 1ms, &order, 1));
  co_await sleep_for(1ms);
  first.release();
  scope.cancel();
  co_await scope.join();
  EXPECT_EQ(semaphore.available(), 1);
  EXPECT_FALSE(co_await with_timeout(1ms, hold(&semaphore, 1, 1h, &order, 2)));
  EXPECT_EQ(semaphore.available(), 1);
}

CO_TEST_SIMULATED(Semaphore, TotalMayChange) {
  Semaphore semaphore(1);
  std::vector<int> order;
  Scope scope(co_await current_executor());
  for (int name = 0; name < 4; ++name) scope.spawn(hold(&semaphore, 1, 5ms, &order, name));
  co_await sleep_for(1ms);
  EXPECT_EQ(order.size(), 1u);
  semaphore.set_total(3);
  co_await sleep_for(1ms);
  EXPECT_EQ(order.size(), 3u);
  semaphore.set_total(1);
  EXPECT_EQ(semaphore.available(), -2);
  co_await scope.join();
  EXPECT_EQ(order.size(), 4u);
  EXPECT_EQ(semaphore.available(), 1);
}

CO_TEST(Semaphore, RequestThatCouldNeverBeServedIsRefused) {
  Semaphore semaphore(2, "slots");
  std::string message;
  try {
    Permit permit = co_await semaphore.acquire(3);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "Semaphore 'slots' was asked for 3 of its 2 units; that wait could never end.");
}

Task<> work_within(Semaphore* semaphore, int64_t* running, int64_t* most) {
  for (int round = 0; round < 5; ++round) {
    Permit permit = co_await semaphore->acquire();
    *most = std::max(*most, ++*running);
    co_await yield_now();
    --*running;
  }
}

CO_TEST(Semaphore, NeverLetsMoreInThanItsUnits) {
  Semaphore semaphore(3);
  int64_t running = 0, most = 0;
  Scope scope(co_await current_executor());
  for (int task = 0; task < 10; ++task) scope.spawn(work_within(&semaphore, &running, &most));
  co_await scope.join();
  EXPECT_EQ(most, 3);
  EXPECT_EQ(semaphore.available(), 3);
}

Task<> expect_refused(Semaphore* semaphore, int64_t units, bool* refused) {
  try {
    Permit permit = co_await semaphore->acquire(units);
  } catch (const Error&) {
    *refused = true;
  }
}

CO_TEST(Semaphore, LoweringTheTotalRefusesARequestThatNeedsMore) {
  Semaphore semaphore(3, "slots");
  std::vector<int> order;
  bool refused = false;
  Permit first = co_await semaphore.acquire(1);
  Scope scope(co_await current_executor());
  scope.spawn(expect_refused(&semaphore, 3, &refused));
  co_await sleep_for(1ms);
  scope.spawn(hold(&semaphore, 1, 1ms, &order, 1));
  co_await sleep_for(1ms);
  EXPECT_TRUE(order.empty());  // behind the large request
  semaphore.set_total(2);
  co_await scope.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(order, std::vector<int>{1});
  EXPECT_EQ(semaphore.available(), 1);
}

}  // namespace
}  // namespace stoker
