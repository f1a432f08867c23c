#include "async/task.h"

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/channel.h"
#include "async/event.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "async/simulated_executor.h"
#include "async/timeout.h"

namespace stoker {
namespace {
using namespace std::chrono_literals;

Task<int> one() { co_return 1; }
Task<int> sum(int count) {
  int total = 0;
  for (int i = 0; i < count; ++i) total += co_await one();
  co_return total;
}
TEST(Task, MillionReadyAwaits) {
  SimulatedExecutor executor(1);
  EXPECT_EQ(run(executor, sum(1'000'000)), 1'000'000);
}
Task<> produce(Channel<int>& channel) {
  for (int i = 0; i < 100; ++i) co_await channel.send(i);
  channel.close();
}
Task<int> consume_all() {
  Channel<int> channel(3, "numbers");
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(produce(channel), "producer");
  int total = 0;
  while (auto value = co_await channel.receive()) total += *value;
  co_await sleep_for(1ms);
  co_await scope.join();
  co_return total;
}
TEST(Task, Channel) {
  SimulatedExecutor executor(1);
  EXPECT_EQ(run(executor, consume_all()), 4950);
  RealExecutor real;
  EXPECT_EQ(run(real, consume_all()), 4950);
}
Task<> stuck(Event& event) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(event.wait(), "waiter");
  co_await scope.join();
}
TEST(Task, Stuck) {
  SimulatedExecutor executor(1);
  Event event("never");
  try {
    run(executor, stuck(event));
    FAIL();
  } catch (const StuckError& error) {
    EXPECT_EQ(error.kind(), StuckError::Kind::kDeadlock);
    ASSERT_EQ(error.tasks().size(), 2u);
    EXPECT_EQ(error.tasks()[1], (StuckTask{"main/waiter", "Event.wait 'never'"}));
  }
}
TEST(Task, Timeout) {
  RealExecutor executor;
  EXPECT_FALSE(run(executor, with_timeout(5ms, sleep_for(10s))));
  EXPECT_TRUE(run(executor, with_timeout(5s, sleep_for(10ms))));
}
}  // namespace
}  // namespace stoker
