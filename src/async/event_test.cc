#include "async/event.h"

#include <vector>

#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<> wait_and_note(Event* event, std::vector<int>* out, int value) {
  co_await event->wait();
  out->push_back(value);
}

CO_TEST(Event, WakesAllThatWaitAndStaysSet) {
  Event event("go");
  std::vector<int> out;
  Scope scope(co_await current_executor());
  for (int waiter = 0; waiter < 3; ++waiter) scope.spawn(wait_and_note(&event, &out, waiter));
  co_await sleep_for(1ms);
  EXPECT_TRUE(out.empty());
  event.set();
  co_await scope.join();
  EXPECT_EQ(out.size(), 3u);
  EXPECT_TRUE(event.is_set());
  co_await event.wait();
}

TEST(Event, WakesInOrderOfArrivalOnTheRealExecutor) {
  RealExecutor executor;
  Event event;
  std::vector<int> out;
  Scope scope(executor);
  for (int waiter = 0; waiter < 5; ++waiter) scope.spawn(wait_and_note(&event, &out, waiter));
  executor.post([&] { event.set(); });
  run(executor, scope.join());
  EXPECT_EQ(out, (std::vector<int>{0, 1, 2, 3, 4}));
}

CO_TEST(Event, ResetMakesLaterWaitsWait) {
  Event event;
  event.set();
  event.reset();
  EXPECT_FALSE(co_await with_timeout(1ms, event.wait()));
}

CO_TEST(Event, WokenTaskGoesOnInSpiteOfReset) {
  Event event;
  std::vector<int> out;
  Scope scope(co_await current_executor());
  scope.spawn(wait_and_note(&event, &out, 1));
  co_await sleep_for(1ms);
  event.set();
  event.reset();
  co_await scope.join();
  EXPECT_EQ(out, std::vector<int>{1});
}

CO_TEST(Event, CancelledWaiterLeavesTheQueue) {
  Event event;
  std::vector<int> out;
  Scope cancelled(co_await current_executor());
  Scope kept(co_await current_executor());
  cancelled.spawn(wait_and_note(&event, &out, 1));
  kept.spawn(wait_and_note(&event, &out, 2));
  co_await sleep_for(1ms);
  cancelled.cancel();
  event.set();
  co_await cancelled.join();
  co_await kept.join();
  EXPECT_EQ(out, std::vector<int>{2});
}

// The first of wake and cancellation wins, whatever the order of resumption.
CO_TEST(Event, CancellationAfterTheWakeComesTooLate) {
  Event event;
  std::vector<int> out;
  Scope scope(co_await current_executor());
  scope.spawn(wait_and_note(&event, &out, 1));
  co_await sleep_for(1ms);
  event.set();
  scope.cancel();
  co_await scope.join();
  EXPECT_EQ(out, std::vector<int>{1});
}

TEST(EventDeathTest, DestructionUnderAWaiterNamesIt) {
  EXPECT_DEATH(
      {
        SimulatedExecutor executor(1);
        auto* event = new Event("ready");
        Scope scope(executor);
        scope.spawn(event->wait(), "follower");
        executor.run_until_idle();
        delete event;
      },
      "Event.wait 'ready' is destroyed under the waiting task 'follower'");
}

}  // namespace
}  // namespace stoker
