#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "base/random.h"
#include "engine/engine_test_support.h"
#include "engine/scripted_engine.h"
#include "rollout/event_log.h"
#include "rollout/orchestrator.h"

// When new weights reach the episodes in flight: UpdateBoundary.
namespace stoker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class NumberedTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override { return {.id = std::to_string(ordinal)}; }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

// Episodes of three tokens, 1 to 1,000 ms before each; a fifth of them fail after that.
class ThreeTokens final : public EpisodePlayer {
 public:
  explicit ThreeTokens(Engine& engine) : engine_(engine) {}

  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::shared_ptr<const Trajectory>) override {
    EpisodeRecord record{.id = id, .task_id = std::move(task.id)};
    record.trajectory.append(SpanKind::kPrompt, 0, std::vector<int32_t>{1});
    record.trajectory.begin_sampled(0);
    RandomStream random({.task_ordinal = id.task_ordinal, .sample = id.sample, .attempt = id.attempt});
    for (int token = 0; token < 3; ++token) {
      record.trajectory.append_sampled(2, -1.0f, engine_.version());
      co_await sleep_for(milliseconds(1 + random.below(1000)));
    }
    if (id.task_ordinal == throws_at) throw internal_error("A promise was broken.");
    record.trajectory.close_sampled(StopReason::kStopToken);
    if (random.below(5) == 0) {
      record.failure = Failure{FailureClass::kEnvironment, "planted", "planted"};
    } else {
      record.reward = random.uniform();
    }
    co_return record;
  }

  uint64_t throws_at = UINT64_MAX;

 private:
  Engine& engine_;
};

struct BoundaryRun {
  ControllerOptions controller = {.total_steps = 6,
                                  .groups_per_batch = 3,
                                  .group_size = 2,
                                  .max_concurrent_episodes = 10,
                                  .max_ahead = 2};
  uint64_t throws_at = UINT64_MAX;
  int64_t stop_at_version = -1;  // request_stop while its publication waits

  // Out.
  int64_t trained = 0;
  int64_t versions_within = 0;  // episodes of more than one version
  std::vector<Json> log;
};

Task<> stop_later(Orchestrator& orchestrator) {
  co_await sleep_for(milliseconds(1));
  orchestrator.request_stop();
}

Task<> train(Scope& scope, Orchestrator& orchestrator, Engine& engine, BoundaryRun& result) {
  co_await orchestrator.start();
  while (std::optional<RolloutBatch> batch = co_await orchestrator.next_batch()) {
    for (const Group& group : batch->groups) {
      for (const EpisodeRecord& episode : group.episodes) {
        const Trajectory& trajectory = episode.trajectory;
        const int64_t last = trajectory.version(trajectory.size() - 1);
        if (last != trajectory.version(1)) ++result.versions_within;
        EXPECT_TRUE(result.controller.update_boundary != UpdateBoundary::kBarrier ||
                    last == group.dispatch_version);
      }
    }
    co_await sleep_for(milliseconds(300));
    ++result.trained;
    if (result.trained == result.stop_at_version) scope.spawn(stop_later(orchestrator));
    co_await orchestrator.step_finished(test_weights(result.trained));
    const bool goes_on = result.stop_at_version < 0 && result.throws_at == UINT64_MAX;
    if (goes_on) EXPECT_EQ(engine.version(), result.trained);
  }
}

Task<> play(Scope& scope, BoundaryRun* out) {
  BoundaryRun& result = *out;
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{}; },
                        {.publish_latency = milliseconds(50)});
  ThreeTokens player(engine);
  player.throws_at = result.throws_at;
  NumberedTasks tasks;
  Orchestrator orchestrator({.controller = result.controller,
                             .event_log = [&result](const Json& line) { result.log.push_back(line); }},
                            player, tasks, engine);
  std::exception_ptr failure;
  try {
    co_await train(scope, orchestrator, engine, result);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await orchestrator.close();
  if (failure) std::rethrow_exception(failure);
}

void play_simulated(uint64_t schedule, BoundaryRun& result) {
  SimulatedExecutor executor(schedule);
  run(executor, run_scope(&play, &result));
}

TEST(UpdateBoundary, NoEpisodeIsOfTwoVersionsBehindABarrier) {
  int64_t without = 0;
  for (uint64_t schedule = 0; schedule < 60; ++schedule) {
    SCOPED_TRACE(schedule);
    BoundaryRun barrier, token;
    barrier.controller.update_boundary = UpdateBoundary::kBarrier;
    barrier.controller.batch_order = token.controller.batch_order = static_cast<BatchOrder>(schedule % 3);
    play_simulated(schedule, barrier);
    play_simulated(schedule, token);
    EXPECT_EQ(barrier.trained, 6);
    EXPECT_EQ(barrier.versions_within, 0);
    EXPECT_EQ(replay_event_log(barrier.log).difference, std::nullopt);
    without += token.versions_within;
    if (HasFailure()) return;
  }
  EXPECT_GT(without, 500);
}

TEST(UpdateBoundary, ARunThatIsStoppedAtABarrierEnds) {
  for (uint64_t schedule = 0; schedule < 40; ++schedule) {
    BoundaryRun result{.stop_at_version = 1 + static_cast<int64_t>(schedule % 4)};
    result.controller.update_boundary = UpdateBoundary::kBarrier;
    play_simulated(schedule, result);
    EXPECT_EQ(result.trained, result.stop_at_version);
  }
}

TEST(UpdateBoundary, WhatAnEpisodeThrowsAtABarrierEndsTheRun) {
  for (uint64_t schedule = 0; schedule < 40; ++schedule) {
    BoundaryRun result{.throws_at = 5 + schedule % 8};
    result.controller.update_boundary = UpdateBoundary::kBarrier;
    EXPECT_THROW(play_simulated(schedule, result), Error);
    EXPECT_LT(result.trained, 6);
  }
}

}  // namespace
}  // namespace stoker
