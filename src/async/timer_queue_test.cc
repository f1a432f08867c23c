#include "async/timer_queue.h"

#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "async/simulated_executor.h"
#include "base/random.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

class NamedTimer final : public Timer {
 public:
  explicit NamedTimer(int name, std::vector<int>* fired = nullptr) : name(name), fired_(fired) {}
  const int name;

 private:
  void fire() override {
    if (fired_ != nullptr) fired_->push_back(name);
  }
  std::vector<int>* fired_;
};

TEST(TimerQueue, AgreesWithAMultimapUnderRandomOperations) {
  RandomStream random({.run_seed = 11});
  TimerQueue queue;
  std::map<std::pair<TimePoint, int>, NamedTimer*> twin;  // equal times: in order of arming
  std::vector<std::unique_ptr<NamedTimer>> timers;
  for (int step = 0; step < 5000; ++step) {
    const uint64_t choice = random.below(10);
    if (choice < 5 || twin.empty()) {
      timers.push_back(std::make_unique<NamedTimer>(step));
      const TimePoint time{Duration(random.below(50))};
      queue.push(*timers.back(), time);
      twin[{time, step}] = timers.back().get();
    } else if (choice < 7) {
      ASSERT_EQ(queue.next_time(), twin.begin()->first.first);
      ASSERT_EQ(&queue.pop(), twin.begin()->second);
      twin.erase(twin.begin());
    } else {
      auto victim = std::next(twin.begin(), static_cast<long>(random.below(twin.size())));
      queue.remove(*victim->second);
      twin.erase(victim);
    }
    ASSERT_EQ(queue.size(), twin.size());
  }
  while (!twin.empty()) {
    ASSERT_EQ(&queue.pop(), twin.begin()->second);
    twin.erase(twin.begin());
  }
  EXPECT_TRUE(queue.empty());
}

TEST(Timer, DestroyedTimerDoesNotFire) {
  SimulatedExecutor executor(1);
  std::vector<int> fired;
  NamedTimer first(1, &fired);
  executor.arm(first, executor.now() + 2s);
  {
    NamedTimer second(2, &fired);
    executor.arm(second, executor.now() + 1s);
    EXPECT_TRUE(second.armed());
  }
  executor.run_until_idle();
  EXPECT_EQ(fired, std::vector<int>{1});
  EXPECT_FALSE(first.armed());
  EXPECT_EQ(executor.now(), TimePoint(2s));
}

TEST(Timer, DisarmedWhenDueDoesNotFire) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedExecutor executor(seed);
    std::vector<int> fired;
    NamedTimer timer(1, &fired);
    auto first = executor.post_at(TimePoint(1s), [&] { timer.disarm(); });
    executor.arm(timer, TimePoint(1s));
    executor.run_until_idle();
    EXPECT_LE(fired.size(), 1u);
    EXPECT_FALSE(timer.armed());
  }
}

TEST(Executor, PostAtRunsAtItsTimeAndNotWhenItsOwnerIsGone) {
  SimulatedExecutor executor(1);
  TimePoint ran{};
  auto kept = executor.post_at(TimePoint(3s), [&] { ran = executor.now(); });
  auto dropped = executor.post_at(TimePoint(1s), [&] { FAIL(); });
  dropped.reset();
  executor.run_until_idle();
  EXPECT_EQ(ran, TimePoint(3s));
  EXPECT_FALSE(kept->armed());
}

TEST(Executor, PostAtWorkMayDestroyItsOwnTimer) {
  SimulatedExecutor executor(1);
  std::unique_ptr<Timer> timer;
  bool ran = false;
  timer = executor.post_at(TimePoint(1s), [&] {
    timer.reset();
    ran = true;
  });
  executor.run_until_idle();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace stoker
