#include "async/real_executor.h"

#include <chrono>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "async/run.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

TEST(RealExecutor, RunsWorkInOrderOfArrival) {
  RealExecutor executor;
  std::vector<int> out;
  for (int value = 0; value < 200; ++value) executor.post([&out, value] { out.push_back(value); });
  executor.run_until_idle();
  ASSERT_EQ(out.size(), 200u);
  for (int value = 0; value < 200; ++value) EXPECT_EQ(out[value], value);
}

TEST(RealExecutor, TimersFireInOrderOfTimeThenOfArming) {
  RealExecutor executor;
  std::vector<int> out;
  const TimePoint soon = executor.now() + 2ms;
  auto late = executor.post_at(soon + 1ms, [&] { out.push_back(3); });
  auto first = executor.post_at(soon, [&] { out.push_back(1); });
  auto second = executor.post_at(soon, [&] { out.push_back(2); });
  auto dropped = executor.post_at(soon, [&] { out.push_back(9); });
  dropped.reset();
  executor.run_until_idle();
  EXPECT_EQ(out, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(executor.now(), soon + 1ms);
}

TEST(RealExecutor, AnEarlierTimerArmedLaterIsNotMissed) {
  RealExecutor executor;
  std::vector<int> out;
  bool done = false;
  auto late = executor.post_at(executor.now() + 1h, [] {});
  std::unique_ptr<Timer> early;
  auto middle = executor.post_at(executor.now() + 2ms, [&] {
    out.push_back(1);
    early = executor.post_at(executor.now() + 1ms, [&] { done = true; });
  });
  executor.run_until(done);
  EXPECT_EQ(out, std::vector<int>{1});
}

TEST(RealExecutor, HandlersOfTheContextRunOnTheLoop) {
  RealExecutor executor;
  bool done = false;
  boost::asio::post(executor.io_context(), [&] { executor.post([&] { done = true; }); });
  executor.run_until(done);
  EXPECT_TRUE(done);
}

Task<> spin_until(const bool* done) {
  while (!*done) co_await yield_now();
}

// A task that is always ready starves neither timers nor I/O.
TEST(RealExecutor, BusyTasksLeaveRoomForTimersAndHandlers) {
  RealExecutor executor;
  bool by_timer = false, by_handler = false;
  auto timer = executor.post_at(executor.now() + 1ms, [&] { by_timer = true; });
  run(executor, spin_until(&by_timer));
  boost::asio::post(executor.io_context(), [&] { by_handler = true; });
  run(executor, spin_until(&by_handler));
  EXPECT_TRUE(by_timer && by_handler);
}

Task<> sleep_many(int count) {
  Scope scope(co_await current_executor());
  for (int task = 0; task < count; ++task) scope.spawn(sleep_for(Duration((task * 7919) % 1'000'000)));
  co_await scope.join();
}

TEST(RealExecutor, AHundredThousandSleepers) {
  RealExecutor executor;
  run(executor, sleep_many(100'000));
  EXPECT_TRUE(executor.tasks().empty());
}

TEST(RealExecutor, UnrunWorkIsDestroyedWithIt) {
  auto owned = std::make_shared<int>(1);
  {
    RealExecutor executor;
    executor.post([owned] {});
  }
  EXPECT_EQ(owned.use_count(), 1);
}

// Destroys `executor` with work that was never run.
void expect_unrun_work_may_arm_and_post(std::unique_ptr<Executor> executor) {
  bool destroyed = false;
  struct Posts {
    Executor& executor;
    bool& destroyed;
    ~Posts() {
      executor.post([timer = executor.post_at(executor.now(), [] {}), &destroyed = destroyed] {
        destroyed = false;  // never run
      });
      destroyed = true;
    }
  };
  auto posts = std::make_unique<Posts>(*executor, destroyed);
  executor->post([timer = executor->post_at(executor->now() + std::chrono::hours(1), [] {}),
                  posts = std::move(posts)] {});
  executor.reset();
  EXPECT_TRUE(destroyed);
}

TEST(RealExecutor, UnrunWorkMayHoldTimersAndPostAsItIsDestroyed) {
  expect_unrun_work_may_arm_and_post(std::make_unique<RealExecutor>());
}

TEST(SimulatedExecutor, UnrunWorkMayHoldTimersAndPostAsItIsDestroyed) {
  expect_unrun_work_may_arm_and_post(std::make_unique<SimulatedExecutor>(1));
}

}  // namespace
}  // namespace stoker
