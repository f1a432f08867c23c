// The whole loop with the real engine, learner and orchestrator on a model of a few thousand parameters: the
// same run gives the same bits whatever the schedule, and also when it was interrupted.

#include <unistd.h>

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/testing/test_folder.h"
#include "compute/cpu/cpu_learner.h"
#include "engine/native_engine.h"
#include "model/model_directory.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "text/chatml_renderer.h"
#include "text/testing/tokenizers.h"
#include "train/orchestrator_source.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

// A conversation of two turns about nothing; the reward is the share of sampled tokens with an even id.
class TwoTurns final : public Environment {
 public:
  Task<Result<Observation>> reset(const TaskRow& task, uint64_t) override {
    co_return Observation{.messages = {{.role = Role::kUser, .content = task.id}}};
  }
  Task<Result<Observation>> step(const Action& action) override {
    if (action.turn > 0) co_return Observation{.done = true};
    co_return Observation{.messages = {{.role = Role::kUser, .content = "go on"}}};
  }
  Task<> close() override { co_return; }
};

class EvenTokens final : public Reward {
 public:
  std::string name() const override { return "even"; }
  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    const Trajectory& trajectory = episode.record.trajectory;
    double even = 0;
    for (int32_t i = 0; i < trajectory.size(); ++i)
      even += trajectory.trained(i) && trajectory.tokens()[i] % 2 == 0;
    co_return RewardResult{.reward = even / trajectory.sampled_count()};
  }
};

class NumberedTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    return {.id = std::to_string(ordinal), .fields = Json::object()};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

class TwoTurnsKind final : public EnvironmentKind {
 public:
  std::unique_ptr<Environment> make(Pool&) const override { return std::make_unique<TwoTurns>(); }
  std::unique_ptr<TaskSource> training_tasks(uint64_t) const override {
    return std::make_unique<NumberedTasks>();
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override { return std::make_unique<NumberedTasks>(); }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(std::make_unique<EvenTokens>());
    return rewards;
  }
};

Weights small_model(int32_t vocabulary) {
  ModelConfig config;
  config.vocab_size = vocabulary;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 16;
  config.intermediate_size = 32;
  config.max_position_embeddings = 128;
  config.qk_norm = true;
  return initialize_weights(config, 11);
}

constexpr int32_t kGroups = 2, kGroupSize = 3;  // of a batch

struct LoopOptions {
  bool plain = false;  // without controller and orchestrator
  int64_t steps = 4;
  int32_t max_ahead = 0;
  int32_t max_concurrent_episodes = 100;
  int32_t max_batch = 64;  // of the engine
  int64_t stop_after = -1;
  int32_t threads = 1;
};

// Synchronous training as a loop, without controller and orchestrator: one episode after the other, then the
// next weights.
class PlainSource final : public RolloutSource {
 public:
  PlainSource(EpisodeRunner& runner, const TaskSource& tasks, Engine& engine, int64_t steps)
      : runner_(runner), tasks_(tasks), engine_(engine), steps_(steps) {}
  Task<std::optional<RolloutBatch>> next_batch() override {
    if (engine_.version() == steps_) co_return std::nullopt;
    RolloutBatch batch{.step = engine_.version()};
    for (int32_t i = 0; i < kGroups; ++i, ++ordinal_) {
      Group group{.task_ordinal = ordinal_,
                  .task_id = tasks_.task(ordinal_).id,
                  .dispatch_version = engine_.version()};
      for (uint32_t sample = 0; sample < static_cast<uint32_t>(kGroupSize); ++sample) {
        const EpisodeId id{.task_ordinal = ordinal_, .sample = sample};
        group.episodes.push_back(co_await runner_.run(id, tasks_.task(ordinal_), nullptr));
      }
      batch.groups.push_back(std::move(group));
    }
    co_return batch;
  }
  Task<> step_finished(WeightsPtr weights) override {
    EXPECT_TRUE((co_await engine_.publish(std::move(weights))).ok());
  }
  uint64_t next_ordinal() const override { return ordinal_; }
  std::vector<uint64_t> open_ordinals() const override { return {}; }

 private:
  EpisodeRunner& runner_;
  const TaskSource& tasks_;
  Engine& engine_;
  int64_t steps_;
  uint64_t ordinal_ = 0;
};

struct LoopResult {
  std::vector<float> weights;
  TrainSummary summary;
  std::vector<MetricMap> steps;
  std::vector<uint64_t> ordinals;  // of the trained groups, in order
};

// Notes which groups were trained.
class NotingSource final : public RolloutSource {
 public:
  NotingSource(RolloutSource& source, std::vector<uint64_t>& ordinals)
      : source_(source), ordinals_(ordinals) {}
  Task<std::optional<RolloutBatch>> next_batch() override {
    std::optional<RolloutBatch> batch = co_await source_.next_batch();
    if (batch) {
      for (const Group& group : batch->groups) ordinals_.push_back(group.task_ordinal);
    }
    co_return batch;
  }
  Task<> step_finished(WeightsPtr weights) override { return source_.step_finished(std::move(weights)); }
  uint64_t next_ordinal() const override { return source_.next_ordinal(); }
  std::vector<uint64_t> open_ordinals() const override { return source_.open_ordinals(); }

 private:
  RolloutSource& source_;
  std::vector<uint64_t>& ordinals_;
};

Task<LoopResult> train_loop(Executor* executor, LoopOptions options, CheckpointStore* store) {
  LoopResult result;
  TokenizerPtr tokenizer = demo_tokenizer();
  ChatMlRenderer renderer(tokenizer, {.list_tools = false});
  ComputePool pool(options.threads);
  TrainerOptions trainer_options{.total_steps = options.steps, .exact_log_probabilities = true};
  trainer_options.train.optimizer.learning_rate = 0.02;
  trainer_options.train.micro_batch_tokens = 60;
  trainer_options.checkpoint.every_steps = 2;
  cpu::CpuLearner learner(small_model(tokenizer->vocabulary_size()),
                          optimizer_options(trainer_options.train.optimizer), tokenizer->vocabulary_size(),
                          pool);
  TrainState start;
  if (store != nullptr) {
    if (std::optional<Checkpoint> checkpoint = store->newest()) {
      start = checkpoint->state;
      Weights weights = load_model_weights(checkpoint->model_folder());
      weights.set_version(start.version);
      learner.restore(weights, checkpoint->optimizer_folder());
    }
  }
  NativeEngine engine(*executor, pool, co_await learner.snapshot(),
                      {.max_batch = options.max_batch, .vocabulary_size = tokenizer->vocabulary_size()});
  TwoTurnsKind kind;
  std::unique_ptr<Agent> agent = make_conversation_agent();
  EpisodeSettings settings{.run_seed = 4};
  settings.limits.max_turn_tokens = 5;
  Pool blocking;
  EpisodeRunner runner(settings, engine, kind, *agent, tokenizer, renderer, blocking, kind.rewards());
  NumberedTasks tasks;
  Orchestrator::Options rollout;
  rollout.controller = {.total_steps = options.steps,
                        .groups_per_batch = kGroups,
                        .group_size = kGroupSize,
                        .max_concurrent_episodes = options.max_concurrent_episodes,
                        .max_ahead = options.max_ahead};
  rollout.first_ordinal = start.next_ordinal;
  rollout.open_ordinals = start.open_ordinals;
  rollout.first_version = start.version;
  rollout.trained_batches = start.step;
  Orchestrator orchestrator(rollout, runner, tasks, engine);
  OrchestratorSource source(orchestrator, engine, *executor);
  PlainSource plain(runner, tasks, engine, options.steps);
  NotingSource noting(options.plain ? static_cast<RolloutSource&>(plain) : source, result.ordinals);
  Trainer* trainer_pointer = nullptr;
  TrainerParts parts{.learner = learner, .source = noting, .checkpoints = store};
  parts.on_step = [&](int64_t step, const MetricMap& metrics) {
    result.steps.push_back(metrics);
    if (step == options.stop_after) trainer_pointer->request_stop();
  };
  Trainer trainer(trainer_options, parts, start);
  trainer_pointer = &trainer;
  if (!options.plain) co_await orchestrator.start();
  result.summary = co_await trainer.run();
  if (!options.plain) co_await orchestrator.close();
  co_await engine.close();
  WeightsPtr weights = co_await learner.snapshot();
  result.weights.assign(weights->values().begin(), weights->values().end());
  co_return result;
}

LoopResult simulate(const LoopOptions& options, uint64_t schedule, CheckpointStore* store = nullptr) {
  SimulatedExecutor executor(schedule);
  return run(executor, train_loop(&executor, options, store));
}

class ReproducibilityTest : public ::testing::Test {
 protected:
  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

TEST_F(ReproducibilityTest, WithoutRunningAheadTheWeightsDoNotDependOnTheSchedule) {
  LoopResult expected = simulate({}, 1);
  EXPECT_EQ(expected.summary.state.version, 4);
  EXPECT_EQ(expected.ordinals, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (uint64_t schedule = 2; schedule < 6; ++schedule) {
    LoopOptions options;
    options.max_concurrent_episodes = schedule % 2 == 0 ? 3 : 100;
    options.max_batch = schedule < 4 ? 2 : 64;
    LoopResult result = simulate(options, schedule);
    EXPECT_EQ(result.weights, expected.weights) << "schedule " << schedule;
    EXPECT_EQ(result.ordinals, expected.ordinals);
  }
  RealExecutor executor;
  EXPECT_EQ(run(executor, train_loop(&executor, {.threads = 2}, nullptr)).weights, expected.weights);
}

// Control C1 of the protocol (Stoker's reference on asynchronous rollouts, section 8.5).
TEST_F(ReproducibilityTest, C1_WithoutRunningAheadTheWeightsAreThoseOfALoopWithoutAController) {
  const LoopResult plain = simulate({.plain = true}, 1);
  const LoopResult controlled = simulate({}, 1);
  EXPECT_EQ(plain.summary.state.version, 4);
  EXPECT_EQ(controlled.weights, plain.weights);
  EXPECT_EQ(controlled.ordinals, plain.ordinals);
  EXPECT_NE(simulate({.max_ahead = 1}, 1).weights, plain.weights);
}

TEST_F(ReproducibilityTest, SamplerAndTrainerAgreeExactlyAtLagZero) {
  LoopResult result = simulate({.steps = 6}, 3);
  for (const MetricMap& step : result.steps) {
    EXPECT_GT(step.at("sampling/lag_0/tokens"), 0.0);
    EXPECT_EQ(step.at("sampling/lag_0/logp_difference/max"), 0.0);
    EXPECT_EQ(step.at("clip_ratio/region_mean"), 0.0);
    EXPECT_EQ(step.count("sampling/lagged/tokens"), 0u);
    EXPECT_EQ(step.count("sampling/mixed/tokens"), 0u);
  }
}

TEST_F(ReproducibilityTest, StoppedAtAnyStepAndResumedEndsInTheSameBits) {
  LoopResult whole = simulate({.steps = 5}, 1);
  for (int64_t stop_after = 1; stop_after < 5; ++stop_after) {
    CheckpointStore store(folder_ / std::to_string(stop_after), 2);
    LoopResult first = simulate({.steps = 5, .stop_after = stop_after}, 7, &store);
    EXPECT_TRUE(first.summary.interrupted);
    EXPECT_EQ(first.summary.state.step, stop_after);
    EXPECT_NE(first.weights, whole.weights);
    LoopResult second = simulate({.steps = 5}, 8, &store);
    EXPECT_EQ(second.weights, whole.weights) << "stopped after step " << stop_after;
    EXPECT_EQ(second.summary.state, whole.summary.state);
  }
}

TEST_F(ReproducibilityTest, CKP_13_AheadOfTrainingEveryTaskIsTrainedOnceAcrossAResume) {
  for (uint64_t schedule = 1; schedule < 6; ++schedule) {
    CheckpointStore store(folder_ / std::to_string(schedule), 2);
    LoopResult first = simulate({.steps = 6, .max_ahead = 2, .stop_after = 3}, schedule, &store);
    ASSERT_EQ(first.summary.state.step, 3);
    EXPECT_FALSE(first.summary.state.open_ordinals.empty());
    LoopResult second = simulate({.steps = 6, .max_ahead = 2}, schedule + 100, &store);
    EXPECT_EQ(second.summary.state.step, 6);
    std::vector<uint64_t> trained(first.ordinals.begin(), first.ordinals.begin() + 6);
    trained.insert(trained.end(), second.ordinals.begin(), second.ordinals.end());
    std::set<uint64_t> distinct(trained.begin(), trained.end());
    EXPECT_EQ(trained.size(), 12u);
    EXPECT_EQ(distinct.size(), 12u) << "schedule " << schedule;
    EXPECT_EQ(*distinct.rbegin(), 11u);  // nothing is passed over for a later task
    for (const MetricMap& step : second.steps) EXPECT_LE(step.at("staleness/trained_lag/max"), 6.0);
  }
}

}  // namespace
}  // namespace stoker
