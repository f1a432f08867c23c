#include "rollout/orchestrator.h"

#include <malloc.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "base/random.h"
#include "engine/scripted_engine.h"
#include "rollout/event_log.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CountingTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    if (ordinal == broken) throw input_error(fmt::format("Row {} of tasks.jsonl is broken.", ordinal));
    return {.id = fmt::format("task {}", ordinal)};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }

  uint64_t broken = UINT64_MAX;
};

// Plays episodes that only take time: each samples one token, and may fail, hang or throw by its id.
class FakePlayer final : public EpisodePlayer {
 public:
  FakePlayer(Engine& engine, uint64_t seed) : engine_(engine), seed_(seed) {}

  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::optional<Trajectory>) override {
    ++open_;
    most_open_ = std::max(most_open_, open_);
    Open guard(open_);
    EpisodeRecord record{.id = id, .task_id = task.id};
    const int32_t prompt[] = {1};
    record.trajectory.append(SpanKind::kPrompt, 0, prompt);
    record.trajectory.begin_sampled(0);
    record.trajectory.append_sampled(2, -1.0f, engine_.version());
    record.trajectory.close_sampled(StopReason::kStopToken);
    RandomStream random(
        {.run_seed = seed_, .task_ordinal = id.task_ordinal, .sample = id.sample, .attempt = id.attempt});
    co_await sleep_for(milliseconds(1 + random.below(1000)));
    if (id.task_ordinal == throws_at) throw internal_error("A promise was broken.");
    if (id.task_ordinal == hangs_at) co_await sleep_for(seconds(1'000'000));
    if (random.uniform() < failure_share || id.task_ordinal == fails_at) {
      record.failure = Failure{FailureClass::kEnvironment, "planted", "planted"};
    } else {
      record.reward = random.uniform();
    }
    co_return record;
  }

  int32_t open() const { return open_; }
  int32_t most_open() const { return most_open_; }

  double failure_share = 0;
  uint64_t throws_at = UINT64_MAX;
  uint64_t fails_at = UINT64_MAX;
  uint64_t hangs_at = UINT64_MAX;

 private:
  struct Open {
    explicit Open(int32_t& count) : count(count) {}
    ~Open() { --count; }
    int32_t& count;
  };

  Engine& engine_;
  uint64_t seed_;
  int32_t open_ = 0;
  int32_t most_open_ = 0;
};

WeightsPtr weights_of_version(int64_t version) {
  static const ModelConfig config{.vocab_size = 4,
                                  .hidden_size = 4,
                                  .num_hidden_layers = 1,
                                  .num_attention_heads = 1,
                                  .num_key_value_heads = 1,
                                  .head_dim = 4,
                                  .intermediate_size = 4,
                                  .max_position_embeddings = 8};
  auto weights = std::make_shared<Weights>(config);
  weights->set_version(version);
  return weights;
}

// What a whole run gave.
struct RunResult {
  std::vector<std::vector<uint64_t>> batches;
  std::vector<EpisodeRecord> episodes;  // of the batches
  std::vector<Json> log;
  int64_t trained = 0;
};

struct RunSetup {
  Orchestrator::Options options;
  double failure_share = 0;
  uint64_t fails_at = UINT64_MAX;
  Duration step_time = milliseconds(300);
  Duration publish_time = milliseconds(50);
  uint64_t seed = 1;
  int32_t most_open = 0;  // out
};

// A learner that only takes time.
Task<> learner(Orchestrator* orchestrator, RunSetup* setup, RunResult* run) {
  co_await orchestrator->start();
  while (std::optional<RolloutBatch> batch = co_await orchestrator->next_batch()) {
    EXPECT_EQ(batch->step, run->trained);
    std::vector<uint64_t> ordinals;
    for (Group& group : batch->groups) {
      ordinals.push_back(group.task_ordinal);
      EXPECT_EQ(group.task_id, fmt::format("task {}", group.task_ordinal));
      EXPECT_EQ(group.episodes.size(), static_cast<size_t>(setup->options.controller.group_size));
      for (EpisodeRecord& episode : group.episodes) {
        EXPECT_EQ(episode.id.task_ordinal, group.task_ordinal);
        EXPECT_LE(episode.trajectory.version(1), batch->step);
        run->episodes.push_back(std::move(episode));
      }
    }
    run->batches.push_back(std::move(ordinals));
    co_await sleep_for(setup->step_time);
    co_await orchestrator->step_finished(weights_of_version(++run->trained));
  }
}

Task<> whole_run(RunSetup* setup, RunResult* run) {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; },
                        {.publish_latency = setup->publish_time});
  FakePlayer player(engine, setup->seed);
  player.failure_share = setup->failure_share;
  player.fails_at = setup->fails_at;
  CountingTasks tasks;
  setup->options.event_log = [run](const Json& line) { run->log.push_back(line); };
  Orchestrator orchestrator(setup->options, player, tasks, engine);
  co_await learner(&orchestrator, setup, run);
  co_await orchestrator.close();
  EXPECT_EQ(player.open(), 0);
  EXPECT_EQ(orchestrator.controller().running_episodes(), 0);
  setup->most_open = player.most_open();
}

RunResult run_simulated_once(uint64_t schedule, RunSetup& setup) {
  RunResult result;
  SimulatedExecutor executor(schedule);
  run(executor, whole_run(&setup, &result));
  return result;
}

ControllerOptions small_options(int32_t max_ahead) {
  return {.total_steps = 6,
          .groups_per_batch = 3,
          .group_size = 2,
          .max_concurrent_episodes = 10,
          .max_ahead = max_ahead};
}

TEST(Orchestrator, SynchronousRunsAreTheSameUnderEverySchedule) {
  std::vector<std::vector<uint64_t>> expected;
  for (uint64_t step = 0; step < 6; ++step) expected.push_back({3 * step, 3 * step + 1, 3 * step + 2});
  std::vector<EpisodeRecord> episodes;
  for (uint64_t schedule = 0; schedule < 100; ++schedule) {
    RunSetup setup{.options = {.controller = small_options(0)}};
    const RunResult result = run_simulated_once(schedule, setup);
    EXPECT_EQ(result.batches, expected);
    for (const EpisodeRecord& episode : result.episodes) {
      EXPECT_EQ(episode.trajectory.version(1), static_cast<int64_t>(episode.id.task_ordinal / 3))
          << "on policy";
    }
    if (schedule == 0) episodes = result.episodes;
    EXPECT_EQ(result.episodes, episodes);
    if (HasFailure()) return;
  }
}

TEST(Orchestrator, AsynchronousRunsTrainEachGroupOnceAndReplay) {
  for (uint64_t schedule = 0; schedule < 200; ++schedule) {
    SCOPED_TRACE(schedule);
    RunSetup setup{.options = {.controller = small_options(1 + static_cast<int32_t>(schedule % 3))},
                   .failure_share = schedule % 2 == 0 ? 0 : 0.3,
                   .seed = schedule};
    const RunResult result = run_simulated_once(schedule, setup);
    EXPECT_EQ(result.trained, 6);
    EXPECT_LE(setup.most_open, 10);
    std::set<uint64_t> trained;
    for (const auto& batch : result.batches) {
      EXPECT_EQ(batch.size(), 3u);
      for (uint64_t ordinal : batch) EXPECT_TRUE(trained.insert(ordinal).second);
    }
    for (const EpisodeRecord& episode : result.episodes) {
      const bool failed_for_good = episode.failure.has_value() && episode.id.attempt == 2;
      EXPECT_TRUE(episode.reward.has_value() || failed_for_good);
    }
    EXPECT_EQ(replay_event_log(result.log).difference, std::nullopt);
    if (HasFailure()) return;
  }
}

// Of task 0, sample 0 fails after a second and is tried again after another; sample 1 fails for good then.
class TogetherFailingPlayer final : public EpisodePlayer {
 public:
  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::optional<Trajectory> /*begun*/) override {
    EpisodeRecord record{.id = id, .task_id = task.id};
    const int32_t prompt[] = {1};
    record.trajectory.append(SpanKind::kPrompt, 0, prompt);
    record.trajectory.begin_sampled(0);
    record.trajectory.append_sampled(2, -1.0f, 0);
    record.trajectory.close_sampled(StopReason::kStopToken);
    co_await sleep_for(std::chrono::seconds(id.sample == 0 ? 1 : 2));
    if (id.sample == 1) co_await yield_now();
    if (id.task_ordinal == 0 && id.sample == 0 && id.attempt == 0) {
      record.failure = Failure{FailureClass::kEnvironment, "planted", "planted"};
    } else if (id.task_ordinal == 0 && id.sample == 1) {
      record.failure = Failure{FailureClass::kReward, "planted", "planted"};
    } else {
      record.reward = 1;
    }
    co_return record;
  }
};

Task<> drop_at_the_end_of_a_backoff() {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; }, {});
  TogetherFailingPlayer player;
  const CountingTasks tasks;
  Orchestrator orchestrator({.controller = {.total_steps = 1,
                                            .group_size = 2,
                                            .max_concurrent_episodes = 4,
                                            .retry_backoff_seconds = 1,
                                            .failed_members = FailedMemberPolicy::kDrop}},
                            player, tasks, engine);
  co_await orchestrator.start();
  const std::optional<RolloutBatch> batch = co_await orchestrator.next_batch();
  CO_ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->groups.at(0).task_ordinal, 1u);
  co_await orchestrator.close();
}

TEST(Orchestrator, RetriesWaitForTheirBackoffAndTheRunIsOtherwiseTheSame) {
  RunSetup setup{.options = {.controller = small_options(0)}, .failure_share = 0.3};
  const RunResult at_once = run_simulated_once(7, setup);
  setup.options.controller.retry_backoff_seconds = 20;
  const RunResult later = run_simulated_once(7, setup);
  EXPECT_EQ(later.batches, at_once.batches);
  EXPECT_EQ(later.episodes.size(), at_once.episodes.size());
  const auto last_time = [](const RunResult& run) { return run.log.back().at("time").as_int(); };
  EXPECT_GT(last_time(later), last_time(at_once) + 20'000'000'000);
  EXPECT_EQ(replay_event_log(later.log).difference, std::nullopt);
}

// A retry whose wait is over, but which has not gone on yet, when its group is dropped.
TEST(Orchestrator, ADropAtTheEndOfABackoffIsNoEndOfTheRun) {
  for (uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SimulatedExecutor executor(seed);
    run(executor, drop_at_the_end_of_a_backoff());
  }
}

TEST(Orchestrator, ATaskThatAlwaysFailsIsSetAsideAndItsPlaceIsTaken) {
  RunSetup setup{.options = {.controller = small_options(1)}, .failure_share = 0};
  setup.options.controller.max_task_failures = 2;
  setup.fails_at = 4;
  const RunResult result = run_simulated_once(3, setup);
  EXPECT_EQ(result.trained, 6);
  for (const auto& batch : result.batches) {
    for (uint64_t ordinal : batch) EXPECT_NE(ordinal, 4u);
  }
  EXPECT_EQ(replay_event_log(result.log).difference, std::nullopt);
}

TEST(Orchestrator, TheSameScheduleGivesTheSameLog) {
  RunSetup setup{.options = {.controller = small_options(2)}, .failure_share = 0.2};
  const RunResult once = run_simulated_once(5, setup);
  const RunResult again = run_simulated_once(5, setup);
  EXPECT_EQ(once.log, again.log);
  EXPECT_GT(once.log.size(), 40u);
}

TEST(Orchestrator, AResumedRunTakesUpItsOpenOrdinals) {
  RunSetup setup{
      .options = {
          .controller = small_options(0), .first_ordinal = 14, .open_ordinals = {11, 9}, .first_version = 0}};
  setup.options.controller.total_steps = 2;
  const RunResult result = run_simulated_once(3, setup);
  EXPECT_EQ(result.batches, (std::vector<std::vector<uint64_t>>{{9, 11, 14}, {15, 16, 17}}));
}

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

TEST(Orchestrator, QUE_03_WhatAProducerThrowsComesOutOfNextBatch) {
  EXPECT_EQ(error_of({.throws_at = 0}), "A promise was broken.");
  EXPECT_EQ(error_of({.throws_at = 4, .hangs_at = 5}), "A promise was broken.");
}

TEST(Orchestrator, ABrokenTaskRowEndsTheRun) {
  EXPECT_EQ(error_of({.broken_task = 7}), "Row 7 of tasks.jsonl is broken.");
}

TEST(Orchestrator, ALogThatCannotBeWrittenEndsTheRun) {
  for (int64_t line : {2, 5, 20}) {
    EXPECT_EQ(error_of({.log_fails_at = line}), "events.jsonl: no space left on device.");
  }
}

TEST(Orchestrator, AWorldInWhichNothingWorksEndsTheRun) {
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

TEST(Orchestrator, QUE_11_CloseCancelsAndJoinsWithoutWaiting) {
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

TEST(Orchestrator, AStopEndsTheRunAfterTheStep) {
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

TEST(Orchestrator, CancellationLeavesNoTask) {
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

TEST(Orchestrator, ARunWhoseLastBatchWasSkippedEndsWithAllStepsDone) {
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

// Bytes in use at step 100 and at the end of 500 steps of 8 episodes.
struct Footprint {
  size_t at_100 = 0;
  size_t at_500 = 0;
};

Task<> long_run(Footprint* footprint) {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; });
  FakePlayer player(engine, 1);
  player.failure_share = 0.1;
  CountingTasks tasks;
  Orchestrator::Options options{.controller = {.total_steps = 500,
                                               .groups_per_batch = 2,
                                               .group_size = 4,
                                               .max_concurrent_episodes = 16,
                                               .max_ahead = 1}};
  Orchestrator orchestrator(options, player, tasks, engine);
  co_await orchestrator.start();
  int64_t step = 0;
  while (co_await orchestrator.next_batch()) {
    ++step;
    EXPECT_LE(orchestrator.controller().open_groups(), 4);
    EXPECT_LE(player.open(), 16);
    if (step == 100) footprint->at_100 = mallinfo2().uordblks;
    if (step == 500) footprint->at_500 = mallinfo2().uordblks;
    co_await orchestrator.step_finished(weights_of_version(step));
  }
  EXPECT_EQ(step, 500);
  EXPECT_LE(player.most_open(), 16);
  co_await orchestrator.close();
}

// The sanitizers' allocators keep no such statistics: there only the counts are checked.
TEST(Orchestrator, MEM_01_FinishedEpisodesAreNotKept) {
  SimulatedExecutor executor(1);
  Footprint footprint;
  run(executor, long_run(&footprint));
  EXPECT_LE(static_cast<double>(footprint.at_500), 1.05 * static_cast<double>(footprint.at_100));
}

TEST(Orchestrator, RunsOnTheRealExecutor) {
  RunSetup setup{.options = {.controller = small_options(2)},
                 .failure_share = 0.1,
                 .step_time = milliseconds(1),
                 .publish_time = milliseconds(1)};
  setup.options.controller.total_steps = 3;
  setup.options.controller.groups_per_batch = 2;
  RunResult result;
  RealExecutor executor;
  run(executor, whole_run(&setup, &result));
  EXPECT_EQ(result.trained, 3);
  EXPECT_EQ(replay_event_log(result.log).difference, std::nullopt);
}

}  // namespace
}  // namespace stoker
