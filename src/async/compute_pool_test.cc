#include "async/compute_pool.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/testing.h"

namespace stoker {
namespace {

struct Turns {
  std::vector<int> order;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
};

Task<> take_turn(ComputePool* pool, Turns* turns, int name) {
  std::vector<int> calls = co_await pool->run([turns, name](Parallel& parallel) {
    turns->most = std::max(turns->most.load(), ++turns->running);
    turns->order.push_back(name);
    std::vector<int> calls(50);
    parallel.for_each(50, [&](int index) { ++calls[index]; });
    --turns->running;
    return calls;
  });
  EXPECT_EQ(calls, std::vector<int>(50, 1));
}

CO_TEST(ComputePool, JobsTakeTurns) {
  ComputePool pool(2);
  Turns turns;
  Scope scope(co_await current_executor());
  for (int name = 0; name < 20; ++name) scope.spawn(take_turn(&pool, &turns, name));
  co_await scope.join();
  EXPECT_EQ(turns.order.size(), 20u);
  EXPECT_EQ(turns.most, 1);
}

CO_TEST_REAL(ComputePool, FirstComeFirstServed) {
  ComputePool pool(2);
  Turns turns;
  Scope scope(co_await current_executor());
  for (int name = 0; name < 20; ++name) scope.spawn(take_turn(&pool, &turns, name));
  co_await scope.join();
  for (int name = 0; name < 20; ++name) EXPECT_EQ(turns.order[name], name);
}

CO_TEST(ComputePool, ExceptionsOfABodyComeOut) {
  ComputePool pool(2);
  EXPECT_THROW(co_await pool.run([](Parallel& parallel) {
    parallel.for_each(4, [](int index) {
      if (index == 3) throw std::runtime_error("body");
    });
  }),
               std::runtime_error);
  EXPECT_EQ(co_await pool.run([](Parallel& parallel) { return parallel.threads() >= 1; }), true);
}

TEST(ComputePool, BlockingEntrySharesTheTurns) {
  ComputePool pool(2);
  EXPECT_EQ(pool.threads(), 2);
  std::vector<int> sums(4);
  std::vector<std::thread> callers;
  int together = 0;  // guarded by the turns
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 50; ++round) {
        sums[caller] += pool.run_blocking([&](Parallel& parallel) {
          ++together;
          int values[2] = {0, 0};
          parallel.for_each(2, [&](int index) { values[index] = index + 1; });
          return values[0] + values[1];
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<int>(4, 150));
  EXPECT_EQ(together, 200);
}

}  // namespace
}  // namespace stoker
