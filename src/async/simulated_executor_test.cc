#include "async/simulated_executor.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/channel.h"
#include "async/event.h"
#include "async/run.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "async/sleep.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<> note(std::vector<int>* out, int value) {
  co_await yield_now();
  out->push_back(value);
}
Task<> note_all(std::vector<int>* out, int count) {
  Scope scope(co_await current_executor());
  for (int value = 0; value < count; ++value) scope.spawn(note(out, value), "note");
  co_await scope.join();
}

TEST(SimulatedExecutor, SameSeedSameScheduleOtherSeedOther) {
  std::set<std::vector<int>> orders;
  std::set<uint64_t> digests;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<int> first, second;
    SimulatedExecutor one(seed), two(seed);
    run(one, note_all(&first, 6));
    run(two, note_all(&second, 6));
    EXPECT_EQ(first, second);
    EXPECT_EQ(one.schedule_digest(), two.schedule_digest());
    EXPECT_EQ(one.steps(), two.steps());
    orders.insert(first);
    digests.insert(one.schedule_digest());
  }
  EXPECT_GT(orders.size(), 40u);
  EXPECT_GT(digests.size(), 45u);
}

TEST(SimulatedExecutor, EveryOrderOfThreeHappens) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<int> out;
    SimulatedExecutor executor(seed);
    run(executor, note_all(&out, 3));
    orders.insert(out);
  }
  EXPECT_EQ(orders.size(), 6u);
}

Task<> sleep_and_note(Duration delay, std::vector<int>* out) {
  co_await sleep_for(delay);
  out->push_back(static_cast<int>(delay / 1s));
}
Task<> sleep_all(std::vector<int>* out) {
  Scope scope(co_await current_executor());
  for (int seconds : {5, 1, 3, 2, 4}) scope.spawn(sleep_and_note(std::chrono::seconds(seconds), out));
  co_await scope.join();
}

TEST(SimulatedExecutor, ClockMovesOnlyWhenNothingIsReady) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int> out;
    SimulatedExecutor executor(seed);
    run(executor, sleep_all(&out));
    EXPECT_EQ(out, (std::vector<int>{1, 2, 3, 4, 5}));
    EXPECT_EQ(executor.now(), TimePoint(5s));
  }
}

Task<> receive_from(Channel<int>* channel) { co_await channel->receive(); }
Task<> send_to(Channel<int>* channel) {
  co_await channel->send(1);
  co_await channel->send(2);
}
Task<> acquire_from(Semaphore* semaphore) {
  const Permit first = co_await semaphore->acquire();
  const Permit second = co_await semaphore->acquire();
}
Task<> deadlocked() {
  Event event("weights ready");
  Channel<int> empty(1, "episodes"), full(1, "batches");
  Semaphore semaphore(1, "slots");
  Scope scope(co_await current_executor());
  scope.spawn(event.wait(), "follower");
  scope.spawn(receive_from(&empty), "receiver");
  scope.spawn(send_to(&full), "sender");
  scope.spawn(acquire_from(&semaphore), "greedy");
  co_await scope.join();
}

TEST(SimulatedExecutor, DeadlockNamesTheStuckTasksAndWhatTheyAwait) {
  SimulatedExecutor executor(3);
  try {
    run(executor, deadlocked());
    FAIL() << "the program ended";
  } catch (const StuckError& error) {
    EXPECT_EQ(error.kind(), StuckError::Kind::kDeadlock);
    EXPECT_EQ(error.tasks(), (std::vector<StuckTask>{{"main", "Scope.join"},
                                                     {"main/follower", "Event.wait 'weights ready'"},
                                                     {"main/receiver", "Channel.receive 'episodes'"},
                                                     {"main/sender", "Channel.send 'batches'"},
                                                     {"main/greedy", "Semaphore.acquire 'slots'"}}));
    const std::string sentence = error.what();
    EXPECT_NE(sentence.find("Deadlock: with seed 3 "), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("task 'main/sender' awaits Channel.send 'batches'"), std::string::npos)
        << sentence;
  }
  EXPECT_TRUE(executor.tearing_down());
  EXPECT_TRUE(executor.tasks().empty());
}

Task<> spin() {
  while (true) co_await yield_now();
}
Task<> poll_forever() {
  while (true) co_await sleep_for(1s);
}

TEST(SimulatedExecutor, LivelockAtOneInstantIsFound) {
  SimulatedExecutor executor(1, {.instant_step_limit = 1000});
  try {
    run(executor, spin(), {}, "spinner");
    FAIL() << "the program ended";
  } catch (const StuckError& error) {
    EXPECT_EQ(error.kind(), StuckError::Kind::kLivelock);
    EXPECT_EQ(error.tasks(), (std::vector<StuckTask>{{"spinner", "ready"}}));
  }
}

TEST(SimulatedExecutor, LivelockOverTimeIsFound) {
  SimulatedExecutor executor(1, {.step_limit = 1000, .instant_step_limit = 100});
  EXPECT_THROW(run(executor, poll_forever()), StuckError);
  EXPECT_GT(executor.now(), TimePoint(100s));
}

TEST(SimulatedExecutor, DrawsAreSeededAndBounded) {
  SimulatedExecutor one(9), two(9), other(10);
  std::vector<uint64_t> first, second, third;
  for (int draw = 0; draw < 20; ++draw) {
    first.push_back(one.draw(1000));
    second.push_back(two.draw(1000));
    third.push_back(other.draw(1000));
    EXPECT_LT(first.back(), 1000u);
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
}

}  // namespace
}  // namespace stoker
