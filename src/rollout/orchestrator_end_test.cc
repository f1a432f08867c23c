#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "engine/scripted_engine.h"
#include "rollout/event_log.h"
#include "rollout/orchestrator.h"
#include "rollout/testing/fake_run.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using testing::CountingTasks;
using testing::FakePlayer;
using testing::learner;
using testing::RunResult;
using testing::RunSetup;
using testing::small_options;
using testing::weights_of_version;

// Starts a run that something ends early; `error` is what next_batch threw.
struct EarlyEnd {
  uint64_t throws_at = UINT64_MAX;
  uint64_t broken_task = UINT64_MAX;
  uint64_t hangs_at = UINT64_MAX;
  double failure_share = 0;
  int64_t log_fails_at = -1;
  std::string error;
  TimePoint ended;
};

Task<> early_end(EarlyEnd* end) {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; });
  FakePlayer player(engine, 1);
  player.throws_at = end->throws_at;
  player.hangs_at = end->hangs_at;
  player.failure_share = end->failure_share;
  CountingTasks tasks;
  tasks.broken = end->broken_task;
  int64_t lines = 0;
  Orchestrator::Options options{.controller = small_options(1)};
  options.event_log = [&lines, end](const Json&) {
    if (lines++ == end->log_fails_at) throw resource_error("events.jsonl: no space left on device.");
  };
  Orchestrator orchestrator(options, player, tasks, engine);
  co_await orchestrator.start();
  try {
    int64_t version = 0;
    while (co_await orchestrator.next_batch()) {
      co_await orchestrator.step_finished(weights_of_version(++version));
    }
  } catch (const Error& error) {
    end->error = error.what();
  }
  co_await orchestrator.close();
  EXPECT_EQ(player.open(), 0);
  end->ended = (co_await current_executor()).now();
}

std::string error_of(EarlyEnd end) {
  std::string error;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedExecutor executor(seed);
    EarlyEnd once = end;
    run(executor, early_end(&once));
    EXPECT_LT(to_seconds(once.ended), 60);
    if (seed == 0) error = once.error;
    EXPECT_EQ(once.error, error);
  }
  return error;
}

TEST(OrchestratorEnd, QUE_03_WhatAProducerThrowsComesOutOfNextBatch) {
  EXPECT_EQ(error_of({.throws_at = 0}), "A promise was broken.");
  EXPECT_EQ(error_of({.throws_at = 4, .hangs_at = 5}), "A promise was broken.");
}

TEST(OrchestratorEnd, ABrokenTaskRowEndsTheRun) {
  EXPECT_EQ(error_of({.broken_task = 7}), "Row 7 of tasks.jsonl is broken.");
}

TEST(OrchestratorEnd, ALogThatCannotBeWrittenEndsTheRun) {
  for (int64_t line : {2, 5, 20}) {
    EXPECT_EQ(error_of({.log_fails_at = line}), "events.jsonl: no space left on device.");
  }
}

TEST(OrchestratorEnd, AWorldInWhichNothingWorksEndsTheRun) {
  SimulatedExecutor executor(1);
  EarlyEnd end{.failure_share = 1.1};
  run(executor, early_end(&end));
  EXPECT_EQ(end.error,
            "The run cannot go on: 64 groups in a row had to be dropped; the last failure was "
            "environment.planted.");
}

// Closes at a drawn moment, while episodes run and hang.
Task<> close_at(Duration moment) {
  Executor& executor = co_await current_executor();
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; });
  FakePlayer player(engine, 1);
  player.hangs_at = 1;
  CountingTasks tasks;
  std::vector<Json> log;
  Orchestrator::Options options{.controller = small_options(1)};
  options.event_log = [&log](const Json& line) { log.push_back(line); };
  Orchestrator orchestrator(options, player, tasks, engine);
  co_await orchestrator.start();
  co_await sleep_for(moment);
  const TimePoint before = executor.now();
  co_await orchestrator.close();
  EXPECT_EQ(executor.now(), before) << "nothing of it waits";
  EXPECT_EQ(player.open(), 0);
  EXPECT_EQ(orchestrator.controller().running_episodes(), 0);
  EXPECT_EQ(replay_event_log(log).difference, std::nullopt);
  EXPECT_EQ(co_await orchestrator.next_batch(), std::nullopt);
  co_await orchestrator.close();
}

TEST(OrchestratorEnd, QUE_11_CloseCancelsAndJoinsWithoutWaiting) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SimulatedExecutor executor(seed);
    run(executor, close_at(milliseconds(seed * 17)));
    if (HasFailure()) return;
  }
}

Task<> stop_after_two_steps(RunResult* result) {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; });
  FakePlayer player(engine, 1);
  CountingTasks tasks;
  Orchestrator orchestrator({.controller = small_options(1)}, player, tasks, engine);
  co_await orchestrator.start();
  while (co_await orchestrator.next_batch()) {
    co_await orchestrator.step_finished(weights_of_version(++result->trained));
    if (result->trained == 2) orchestrator.request_stop();
  }
  co_await orchestrator.close();
  EXPECT_EQ(player.open(), 0);
}

TEST(OrchestratorEnd, AStopEndsTheRunAfterTheStep) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SimulatedExecutor executor(seed);
    RunResult result;
    run(executor, stop_after_two_steps(&result));
    EXPECT_EQ(result.trained, 2);
  }
}

// The caller's cancellation comes while the learner waits, trains or publishes.
Task<> cancelled_run(Duration moment, bool* cancelled) {
  RunSetup setup{.options = {.controller = small_options(1)}};
  RunResult result;
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; },
                        {.publish_latency = milliseconds(50)});
  FakePlayer player(engine, 1);
  CountingTasks tasks;
  setup.options.event_log = [&result](const Json& line) { result.log.push_back(line); };
  Orchestrator orchestrator(setup.options, player, tasks, engine);
  *cancelled = !co_await with_timeout(moment, learner(&orchestrator, &setup, &result));
  co_await orchestrator.close();
  EXPECT_EQ(player.open(), 0);
  EXPECT_EQ(replay_event_log(result.log).difference, std::nullopt);
}

TEST(OrchestratorEnd, CancellationLeavesNoTask) {
  int cancelled_runs = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimulatedExecutor executor(seed);
    bool cancelled = false;
    run(executor, cancelled_run(milliseconds(seed * 29), &cancelled));
    cancelled_runs += cancelled ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(cancelled_runs, 100);
}

// Every third batch has nothing to train, the last one too.
Task<> run_with_skips(std::vector<Json>* log) {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; });
  FakePlayer player(engine, 1);
  CountingTasks tasks;
  Orchestrator::Options options{.controller = small_options(1)};
  options.event_log = [log](const Json& line) { log->push_back(line); };
  Orchestrator orchestrator(options, player, tasks, engine);
  co_await orchestrator.start();
  int64_t version = 0;
  for (int step = 1; step <= 6; ++step) {
    EXPECT_TRUE((co_await orchestrator.next_batch()).has_value());
    if (step % 3 == 0) {
      orchestrator.step_skipped();
    } else {
      co_await orchestrator.step_finished(weights_of_version(++version));
    }
  }
  co_await orchestrator.close();
}

TEST(OrchestratorEnd, ARunWhoseLastBatchWasSkippedEndsWithAllStepsDone) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Json> log;
    SimulatedExecutor executor(seed);
    run(executor, run_with_skips(&log));
    const std::string last = log.back().dump();
    EXPECT_NE(last.find("step_skipped"), std::string::npos) << last;
    EXPECT_NE(last.find("all steps are done"), std::string::npos) << last;
    EXPECT_EQ(replay_event_log(log).difference, std::nullopt);
  }
}

}  // namespace
}  // namespace stoker
