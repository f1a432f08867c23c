#include "rollout/orchestrator.h"

#include <malloc.h>

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "async/sleep.h"
#include "async/testing.h"
#include "engine/scripted_engine.h"
#include "rollout/event_log.h"
#include "rollout/testing/fake_run.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using testing::CountingTasks;
using testing::FakePlayer;
using testing::run_simulated_once;
using testing::RunResult;
using testing::RunSetup;
using testing::small_options;
using testing::weights_of_version;
using testing::whole_run;

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
  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::shared_ptr<const Trajectory> /*begun*/) override {
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
