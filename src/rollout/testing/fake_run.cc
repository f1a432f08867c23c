#include "rollout/testing/fake_run.h"

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "async/testing.h"
#include "engine/scripted_engine.h"

namespace stoker::testing {

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

}  // namespace stoker::testing
