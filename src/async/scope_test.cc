#include "async/scope.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<> append_after(Duration delay, std::vector<int>* out, int value) {
  co_await sleep_for(delay);
  out->push_back(value);
}
Task<> fail_after(Duration delay, std::string message) {
  co_await sleep_for(delay);
  throw std::runtime_error(message);
}
Task<> note_reason(std::vector<CancelReason>* reasons) {
  try {
    co_await sleep_for(1h);
  } catch (const Cancelled& cancelled) {
    reasons->push_back(cancelled.reason());
    throw;
  }
}
Task<std::string> message_of(Task<> task) {
  try {
    co_await std::move(task);
  } catch (const std::exception& error) {
    co_return error.what();
  }
  co_return "";
}

CO_TEST_SIMULATED(Scope, JoinWaitsForAll) {
  std::vector<int> out;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(append_after(3ms, &out, 3));
  scope.spawn(append_after(1ms, &out, 1));
  scope.spawn(append_after(2ms, &out, 2));
  EXPECT_EQ(scope.running(), 3u);
  EXPECT_TRUE(out.empty());
  co_await scope.join();
  EXPECT_EQ(out, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(scope.running(), 0u);
  co_await scope.join();  // with nothing to wait for
  scope.spawn(append_after(0ms, &out, 4));
  co_await scope.join();  // used again
  EXPECT_EQ(out.back(), 4);
}

CO_TEST_SIMULATED(Scope, FirstFailureCancelsTheOthersAndComesOutOfJoin) {
  std::vector<CancelReason> reasons;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(note_reason(&reasons));
  scope.spawn(fail_after(2ms, "second"));
  scope.spawn(fail_after(1ms, "first"));
  EXPECT_EQ(co_await message_of(scope.join()), "first");
  EXPECT_EQ(reasons, std::vector<CancelReason>{CancelReason::kRequested});
  EXPECT_EQ(scope.running(), 0u);
}

CO_TEST(Scope, CancelReachesRunningAndLaterTasksAndJoinEndsWell) {
  std::vector<CancelReason> reasons;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(note_reason(&reasons));
  co_await sleep_for(1ms);
  scope.cancel(CancelReason::kShutdown);
  scope.spawn(note_reason(&reasons));
  EXPECT_EQ(co_await message_of(scope.join()), "");
  EXPECT_EQ(reasons, std::vector<CancelReason>(2, CancelReason::kShutdown));
}

Task<> spawn_and_join(std::vector<CancelReason>* reasons, bool* joined) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(note_reason(reasons));
  scope.spawn(shielded(sleep_for(5ms)));
  try {
    co_await scope.join();
  } catch (const Cancelled&) {
    *joined = scope.running() == 0;
    throw;
  }
}

CO_TEST(Scope, CancelledJoinStillWaitsForTheTasks) {
  std::vector<CancelReason> reasons;
  bool joined = false;
  EXPECT_FALSE(co_await with_timeout(1ms, spawn_and_join(&reasons, &joined)));
  EXPECT_TRUE(joined);
  EXPECT_EQ(reasons, std::vector<CancelReason>{CancelReason::kDeadline});
}

// A Scope without a parent token hears of the cancellation through who joins it.
CO_TEST(Scope, JoinPassesTheCallersCancellationOn) {
  std::vector<CancelReason> reasons;
  Scope scope(co_await current_executor());
  scope.spawn(note_reason(&reasons));
  EXPECT_FALSE(co_await with_timeout(1ms, scope.join()));
  EXPECT_EQ(reasons, std::vector<CancelReason>{CancelReason::kDeadline});
}

CO_TEST(Scope, SeveralMayJoin) {
  std::vector<int> out;
  Scope scope(co_await current_executor());
  Scope joiners(co_await current_executor());
  scope.spawn(append_after(1ms, &out, 1));
  joiners.spawn(scope.join());
  joiners.spawn(scope.join());
  co_await joiners.join();
  EXPECT_EQ(out, std::vector<int>{1});
}

Task<> record_name(std::string* name) {
  *name = running_task()->name();
  co_return;
}
Task<> spawn_named(std::string* name) {
  Scope scope(co_await current_executor());
  scope.spawn(record_name(name), "inner");
  co_await scope.join();
}

Task<> spawn_successors(Scope& scope, int count, std::string* name) {
  *name = running_task()->name();
  if (count > 0) scope.spawn(spawn_successors(scope, count - 1, name), "successor");
  co_return;
}

CO_TEST(Scope, TheNameOfATaskDoesNotGrowWithTheGenerationsBeforeIt) {
  std::string name;
  Scope scope(co_await current_executor());
  scope.spawn(spawn_successors(scope, 3, &name), "first");
  co_await scope.join();
  EXPECT_EQ(name, "main/successor");
}

CO_TEST(Scope, TasksCarryTheNamesOfWhoMadeTheirScope) {
  std::string name;
  Scope scope(co_await current_executor());
  scope.spawn(spawn_named(&name), "outer");
  co_await scope.join();
  EXPECT_EQ(name, "main/outer/inner");
}

Task<> spawn_then_fail(Scope& scope, std::vector<CancelReason>* reasons, bool fail) {
  scope.spawn(note_reason(reasons));
  co_await sleep_for(1ms);
  if (fail) throw std::runtime_error("body");
  scope.cancel();
}

CO_TEST(RunScope, JoinsOnEveryWayOut) {
  std::vector<CancelReason> reasons;
  EXPECT_EQ(co_await message_of(run_scope(&spawn_then_fail, &reasons, true)), "body");
  EXPECT_EQ(reasons.size(), 1u);
  EXPECT_EQ(co_await message_of(run_scope(&spawn_then_fail, &reasons, false)), "");
  EXPECT_EQ(reasons.size(), 2u);
}

Task<> spawn_then_let_a_child_fail(Scope& scope) {
  scope.spawn(fail_after(1ms, "child"));
  co_return;
}

CO_TEST(RunScope, ChildsFailureComesOut) {
  EXPECT_EQ(co_await message_of(run_scope(&spawn_then_let_a_child_fail)), "child");
}

// A Scope that belongs to an object of the loop thread, joined by somebody else.
class Server {
 public:
  explicit Server(Executor& executor) : scope_(executor) {}
  void start(std::vector<int>* out) { scope_.spawn(append_after(1ms, out, 1), "request"); }
  Task<> stop() { return scope_.join(); }

 private:
  Scope scope_;
};

CO_TEST(Scope, MayBeAMemberOfAnObject) {
  std::vector<int> out;
  Server server(co_await current_executor());
  server.start(&out);
  co_await server.stop();
  EXPECT_EQ(out, std::vector<int>{1});
}

TEST(ScopeDeathTest, DestructionWhileTasksRunNamesThem) {
  EXPECT_DEATH(
      {
        SimulatedExecutor executor(1);
        Scope scope(executor);
        scope.spawn(sleep_for(1h), "sleeper");
        executor.run_until_idle();
        Scope unjoined(executor);
        unjoined.spawn(sleep_for(1h), "forgotten");
      },
      "A Scope is destroyed while 1 of its tasks run \\('forgotten'\\)");
}

TEST(Scope, TearingDownDestroysTasksWhereTheyStand) {
  std::vector<CancelReason> reasons;
  Event never("never");
  {
    SimulatedExecutor executor(1);
    executor.tear_down();
    Scope scope(executor);
    scope.spawn(never.wait());
    scope.spawn(note_reason(&reasons));
    executor.run_until_idle();
    never.set();  // a posted resumption of a frame that is gone must not run
    scope.spawn(note_reason(&reasons));
  }
  EXPECT_TRUE(reasons.empty());
}

CO_TEST_SIMULATED(Scope, TenThousandTasks) {
  std::vector<int> out;
  Scope scope(co_await current_executor());
  for (int task = 0; task < 10'000; ++task) scope.spawn(append_after(Duration(task % 7), &out, task));
  co_await scope.join();
  EXPECT_EQ(out.size(), 10'000u);
}

CO_TEST(Scope, AfterAFailureItsTasksRunAgainButACancellationStays) {
  std::vector<int> out;
  CancellationSource parent;
  Scope scope(co_await current_executor(), parent.token());
  scope.spawn(fail_after(1ms, "first"));
  EXPECT_EQ(co_await message_of(scope.join()), "first");
  scope.spawn(append_after(1ms, &out, 1));
  co_await scope.join();
  EXPECT_EQ(out, std::vector<int>{1});
  scope.spawn(append_after(1h, &out, 2));
  parent.request(CancelReason::kShutdown);  // reaches the fresh token
  co_await scope.join();
  EXPECT_TRUE(scope.token().requested());
  scope.cancel();
  scope.spawn(append_after(1ms, &out, 3));
  co_await scope.join();
  EXPECT_EQ(out, std::vector<int>{1});
}

}  // namespace
}  // namespace stoker
