#include "async/pool.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "async/event.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "base/error.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

// A door that pool threads wait at until the test opens it.
struct Door {
  std::atomic<bool> entered = false;
  std::atomic<bool> open = false;
  void wait_inside() {
    entered = true;
    entered.notify_all();
    open.wait(false);
  }
  void let_go() {
    open = true;
    open.notify_all();
  }
};

Task<> run_at_door(Pool* pool, std::shared_ptr<Door> door, bool* returned) {
  co_await pool->run([door] { door->wait_inside(); });
  *returned = true;
}
Task<> note(Pool* pool, std::vector<int>* out, int value) {
  out->push_back(co_await pool->run([value] { return value; }));
}
Task<> until_entered(Door* door) {
  while (!door->entered) co_await sleep_for(100us);
}

CO_TEST(Pool, GivesValuesAndExceptions) {
  Pool pool({.threads = 2, .name = "test"});
  EXPECT_EQ(co_await pool.run([] { return 7; }), 7);
  const auto pointer = co_await pool.run([] { return std::make_unique<std::string>("text"); });
  EXPECT_EQ(*pointer, "text");
  bool ran = false;
  co_await pool.run([&ran] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_THROW(co_await pool.run([] { throw std::runtime_error("broken"); }), std::runtime_error);
}

CO_TEST(Pool, AHundredTasks) {
  Pool pool({.threads = 3});
  std::vector<int> out;
  Scope scope(co_await current_executor());
  for (int value = 0; value < 100; ++value) scope.spawn(note(&pool, &out, value));
  co_await scope.join();
  EXPECT_EQ(out.size(), 100u);
}

CO_TEST_REAL(Pool, RunsBesideTheLoopAndResumesOnIt) {
  Pool pool({.threads = 1});
  const std::thread::id loop = std::this_thread::get_id();
  const std::thread::id other = co_await pool.run([] { return std::this_thread::get_id(); });
  EXPECT_NE(other, loop);
  EXPECT_EQ(std::this_thread::get_id(), loop);
}

CO_TEST_REAL(Pool, OneThreadServesInOrder) {
  Pool pool({.threads = 1});
  std::vector<int> out;
  Scope scope(co_await current_executor());
  for (int value = 0; value < 20; ++value) scope.spawn(note(&pool, &out, value));
  co_await scope.join();
  for (int value = 0; value < 20; ++value) EXPECT_EQ(out[value], value);
}

CO_TEST_SIMULATED(Pool, InSimulationRunsOnTheLoopAtAVirtualMoment) {
  Pool pool({.threads = 2});
  Executor& executor = co_await current_executor();
  const TimePoint begin = executor.now();
  const std::thread::id thread = co_await pool.run([] { return std::this_thread::get_id(); });
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_LT(executor.now() - begin, 1ms);
}

CO_TEST_REAL(Pool, CancellingTakesAQueuedFunctionOut) {
  Pool pool({.threads = 1});
  auto door = std::make_shared<Door>();
  bool returned = false;
  std::vector<int> out;
  Scope holder(co_await current_executor());
  Scope queued(co_await current_executor());
  holder.spawn(run_at_door(&pool, door, &returned));
  co_await until_entered(door.get());
  queued.spawn(note(&pool, &out, 1));
  co_await yield_now();
  co_await yield_now();
  EXPECT_EQ(pool.queued(), 1u);
  queued.cancel();
  co_await queued.join();
  EXPECT_EQ(pool.queued(), 0u);
  door->let_go();
  co_await holder.join();
  EXPECT_TRUE(returned);
  EXPECT_TRUE(out.empty());
}

Task<> open_after(Duration delay, Door* door) {
  co_await sleep_for(delay);
  door->let_go();
}

CO_TEST_REAL(Pool, CancellingWaitsForARunningFunction) {
  Pool pool({.threads = 1});
  auto door = std::make_shared<Door>();
  bool returned = false;
  Scope running(co_await current_executor());
  Scope opener(co_await current_executor());
  running.spawn(run_at_door(&pool, door, &returned));
  co_await until_entered(door.get());
  running.cancel();
  opener.spawn(open_after(2ms, door.get()));
  co_await running.join();
  EXPECT_TRUE(returned);
  co_await opener.join();
}

// Starts a function that hangs, cancels its task once a thread has it, and gives what came out.
Task<std::string> cancel_at_door(Pool* pool, std::shared_ptr<Door> door) {
  bool returned = false;
  Scope hung(co_await current_executor());
  hung.spawn(run_at_door(pool, door, &returned));
  co_await until_entered(door.get());
  hung.cancel();
  std::string message;
  try {
    co_await hung.join();
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_FALSE(returned);
  co_return message;
}

CO_TEST_REAL(Pool, AbandonsAFunctionThatDoesNotReturn) {
  auto first = std::make_shared<Door>();
  auto second = std::make_shared<Door>();
  Pool pool({.threads = 1, .name = "blocking", .abandon_after = 1ms, .lost_limit = 1});
  EXPECT_EQ(co_await cancel_at_door(&pool, first), "");
  EXPECT_EQ(pool.lost_threads(), 1);
  EXPECT_EQ(co_await pool.run([] { return 3; }), 3);  // another thread took its place
  EXPECT_EQ(
      co_await cancel_at_door(&pool, second),
      "Pool 'blocking' has lost 2 threads to calls that do not return; run such calls in a process with a "
      "time limit.");
  first->let_go();
  second->let_go();
}

Task<> abandon_while_another_waits(Pool* pool, std::shared_ptr<Door> door, std::vector<int>* out) {
  bool returned = false;
  Scope waiting(co_await current_executor());
  Scope hung(co_await current_executor());
  hung.spawn(run_at_door(pool, door, &returned));
  co_await until_entered(door.get());
  waiting.spawn(note(pool, out, 5));
  hung.cancel();
  co_await hung.join();
  co_await waiting.join();
}

CO_TEST_REAL(Pool, WhatWaitsBehindALostThreadIsServed) {
  auto door = std::make_shared<Door>();
  Pool pool({.threads = 1, .abandon_after = 1ms});
  std::vector<int> out;
  co_await abandon_while_another_waits(&pool, door, &out);
  EXPECT_EQ(out, std::vector<int>{5});
  door->let_go();
}

CO_TEST_REAL(Pool, AFunctionInTimeAfterTheCancellationGivesItsValue) {
  Pool pool({.threads = 1, .abandon_after = 1h});
  auto door = std::make_shared<Door>();
  bool returned = false;
  Scope running(co_await current_executor());
  running.spawn(run_at_door(&pool, door, &returned));
  co_await until_entered(door.get());
  running.cancel();
  door->let_go();
  co_await running.join();
  EXPECT_TRUE(returned);
  EXPECT_EQ(pool.lost_threads(), 0);
}

TEST(Pool, AnAbandonableFunctionDoesNotHoldUpThePoolOnceItsTaskIsDestroyed) {
  auto door = std::make_shared<Door>();
  bool returned = false;
  {
    Pool pool({.threads = 1, .abandon_after = 1h});
    RealExecutor executor;
    // What a timer throws destroys the waiting task.
    const auto timer = executor.post_at(executor.now() + 1ms, [door] {
      while (!door->entered) std::this_thread::yield();
      throw std::runtime_error("the loop ends");
    });
    EXPECT_THROW(run(executor, run_at_door(&pool, door, &returned)), std::runtime_error);
    EXPECT_EQ(pool.lost_threads(), 1);
  }
  EXPECT_FALSE(returned);
  door->let_go();
}

CO_TEST(Pool, RequestedTokenKeepsTheFunctionFromRunning) {
  Pool pool({.threads = 1});
  std::vector<int> out;
  Scope scope(co_await current_executor());
  scope.cancel();
  scope.spawn(note(&pool, &out, 1));
  co_await scope.join();
  EXPECT_TRUE(out.empty());
}

TEST(Pool, RunsForCodeWithoutALoop) {
  Pool pool({.threads = 1});
  EXPECT_EQ(pool.run_blocking([] { return 5; }), 5);
  EXPECT_THROW(pool.run_blocking([]() -> int { throw std::runtime_error("x"); }), std::runtime_error);
}

TEST(Pool, PostFromOtherThreadsReachesTheLoop) {
  RealExecutor executor;
  bool done = false;
  int arrived = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int post = 0; post < 250; ++post) executor.post([&] { done = ++arrived == 1000; });
    });
  }
  executor.run_until(done);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arrived, 1000);
}

}  // namespace
}  // namespace stoker
