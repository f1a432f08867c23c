// Calls that heed nothing: when the episode goes on without them.

#include <limits>

#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "rollout/episode_world.h"
#include "rollout/rollout_test_support.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Fault;
using testing::FaultPlan;
using testing::FaultyEnvironmentKind;

constexpr double kForever = std::numeric_limits<double>::infinity();

EpisodeLimits no_time_limits() {
  return {.reset_timeout_seconds = kForever,
          .step_timeout_seconds = kForever,
          .generate_timeout_seconds = kForever,
          .reward_timeout_seconds = kForever,
          .close_timeout_seconds = kForever,
          .episode_timeout_seconds = kForever};
}

TaskRow one_task() {
  return {.id = "faulty/0", .fields = Json::object({{"prompt", "Task 0?"}, {"ordinal", 0}})};
}

std::string probe_then_say(const GenerateRequest& request) {
  if (request.stream.turn == 0) return "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call>";
  return "say";
}

// How an episode ended, and when on the virtual clock.
struct End {
  std::string failure;  // "done", "cancelled" or the failure's name
  Duration time{};
};

Task<> play_to_end(EpisodeRig* rig, const FaultyEnvironmentKind* kind, Duration cancelled_at, End* end) {
  Executor& executor = co_await current_executor();
  const auto record =
      co_await with_deadline(TimePoint(cancelled_at), rig->runner().run({0, 0, 0}, one_task()));
  end->time = executor.now().time_since_epoch();
  end->failure = !record ? "cancelled" : record->failure ? record->failure->name() : "done";
  EXPECT_EQ(kind->counts().closes, 1);
  kind->counts().release.set();
  co_await sleep_for(seconds(1));
  EXPECT_EQ(kind->counts().made, kind->counts().destroyed);
}

End play(Fault FaultPlan::* place, const EpisodeLimits& limits, Duration cancelled_at = std::chrono::hours(9),
         double tool_timeout_seconds = kForever) {
  SimulatedExecutor executor(5);
  FaultyEnvironmentKind kind([place](const TaskRow&, int32_t) {
    FaultPlan plan;
    plan.*place = Fault::kHangHard;
    return plan;
  });
  EpisodeRig rig(kind, probe_then_say, {.limits = limits});
  rig.agent = make_tool_agent({.tool_timeout_seconds = tool_timeout_seconds});
  End end;
  run(executor, play_to_end(&rig, &kind, cancelled_at, &end));
  return end;
}

constexpr Fault FaultPlan::* kCalls[] = {&FaultPlan::reset, &FaultPlan::step, &FaultPlan::tool};

TEST(Abandoned, AGraceAfterTheCallsOwnLimit) {
  EpisodeLimits limits = no_time_limits();
  limits.step_timeout_seconds = 20;
  const End end = play(&FaultPlan::step, limits);
  EXPECT_EQ(end.failure, "environment.timeout");
  EXPECT_EQ(end.time, seconds(25));
  limits.reward_timeout_seconds = 3;
  EXPECT_EQ(play(&FaultPlan::reward, limits).time, seconds(8));
}

TEST(Abandoned, AGraceAfterTheEpisodesDeadline) {
  EpisodeLimits limits = no_time_limits();
  limits.episode_timeout_seconds = 10;
  for (Fault FaultPlan::* place : kCalls) {
    for (const double own_limit : {60.0, kForever}) {
      limits.reset_timeout_seconds = limits.step_timeout_seconds = own_limit;
      const End end = play(place, limits, std::chrono::hours(9), own_limit);
      EXPECT_EQ(end.failure, "limit.wall_clock");
      EXPECT_EQ(end.time, seconds(15));
    }
  }
}

TEST(Abandoned, AGraceAfterTheRunWasCancelled) {
  for (Fault FaultPlan::* place :
       {&FaultPlan::reset, &FaultPlan::step, &FaultPlan::tool, &FaultPlan::reward}) {
    for (const EpisodeLimits& limits : {EpisodeLimits{}, no_time_limits()}) {
      const End end = play(place, limits, seconds(7));
      EXPECT_EQ(end.failure, "cancelled");
      EXPECT_EQ(end.time, seconds(12));
    }
  }
}

TEST(Abandoned, TheCallsOwnLimitIsNotPutOffByALaterCancellation) {
  EpisodeLimits limits = no_time_limits();
  limits.step_timeout_seconds = 5;
  EXPECT_EQ(play(&FaultPlan::step, limits, seconds(8)).time, seconds(10));
}

TEST(Abandoned, ACloseHasItsOwnTimeWhateverIsCancelled) {
  EpisodeLimits limits = no_time_limits();
  EXPECT_EQ(play(&FaultPlan::close, limits, seconds(7)).time, seconds(7) + kUnlimitedCloseGrace);
  limits.close_timeout_seconds = 50;
  EXPECT_EQ(play(&FaultPlan::close, limits, seconds(7)).time, seconds(55));
  EXPECT_EQ(play(&FaultPlan::close, limits).time, seconds(55));
}

// ---- Threads ----

Task<> tick(int* ticks) {
  while (true) {
    co_await sleep_for(milliseconds(5));
    ++*ticks;
  }
}

// Two episodes block a thread each, of which the pool may lose one.
Task<> lose_threads(EpisodeRig* rig, const FaultyEnvironmentKind* kind, const char* expected) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  int ticks = 0;
  scope.spawn(tick(&ticks));
  const EpisodeRecord record = co_await rig->runner().run({0, 0, 0}, one_task());
  EXPECT_EQ(record.failure.value_or(Failure{}).name(), expected);
  EXPECT_FALSE(record.reward.has_value());
  EXPECT_GT(ticks, 5) << "the loop stands still";
  EXPECT_EQ(rig->blocking->lost_threads(), 1);
  std::optional<ErrorKind> error;
  try {
    co_await rig->runner().run({1, 0, 0}, one_task());
  } catch (const Error& thrown) {
    error = thrown.kind();
  }
  EXPECT_EQ(error, ErrorKind::kResource);
  EXPECT_EQ(kind->counts().closes, 2);
  scope.cancel();
  co_await scope.join();
  kind->counts().thread_release->set();
  while (kind->counts().thread_release->waiting() > 0) co_await sleep_for(milliseconds(1));
}

TEST(Blocking, CodeThatNeverReturnsCostsAThreadAndTooManyEndTheRun) {
  struct Case {
    Fault FaultPlan::* place;
    const char* failure;
  };
  for (const Case& c :
       {Case{&FaultPlan::reset, "environment.timeout"}, Case{&FaultPlan::step, "environment.timeout"},
        Case{&FaultPlan::tool, "tool.timeout"}, Case{&FaultPlan::reward, "reward.timeout"}}) {
    SCOPED_TRACE(c.failure);
    RealExecutor executor;
    FaultyEnvironmentKind kind([&](const TaskRow&, int32_t) {
      FaultPlan plan;
      plan.*c.place = Fault::kBlock;
      return plan;
    });
    EpisodeRig rig(
        kind, probe_then_say,
        {.limits = {
             .reset_timeout_seconds = 0.1, .step_timeout_seconds = 0.1, .reward_timeout_seconds = 0.1}});
    rig.agent = make_tool_agent({.tool_timeout_seconds = 0.1});
    rig.blocking = std::make_unique<Pool>(
        PoolOptions{.threads = 1, .name = "world", .abandon_after = milliseconds(50), .lost_limit = 1});
    run(executor, lose_threads(&rig, &kind, c.failure));
  }
}

Task<> close_late(EpisodeRig* rig, const FaultyEnvironmentKind* kind) {
  const EpisodeRecord record = co_await rig->runner().run({0, 0, 0}, one_task());
  EXPECT_FALSE(record.failure.has_value());
  EXPECT_EQ(rig->runner().abandoned_environments(), 1);
  EXPECT_EQ(rig->blocking->lost_threads(), 1);
  kind->counts().thread_release->set();
  while (kind->counts().thread_release->waiting() > 0) co_await sleep_for(milliseconds(1));
}

TEST(Blocking, ACloseThatNeverReturnsCostsAThreadAndNotTheReward) {
  RealExecutor executor;
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.close = Fault::kBlock}; });
  EpisodeRig rig(kind, probe_then_say, {.limits = {.close_timeout_seconds = 0.1}});
  rig.blocking = std::make_unique<Pool>(
      PoolOptions{.name = "world", .abandon_after = milliseconds(50), .lost_limit = 1});
  run(executor, close_late(&rig, &kind));
}

}  // namespace
}  // namespace stoker
