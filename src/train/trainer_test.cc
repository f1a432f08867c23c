#include "train/trainer.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "async/run.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "base/error.h"
#include "base/testing/test_folder.h"
#include "model/model_directory.h"
#include "train/testing/fake_rollouts.h"
#include "train/testing/table_learner.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::FakeRolloutOptions;
using testing::FakeRollouts;
using testing::table_weights;
using testing::TableLearner;

constexpr int32_t kVocabulary = 11;

class TrainerTest : public ::testing::Test {
 protected:
  static TrainerOptions options_for(int64_t steps) {
    TrainerOptions options{.total_steps = steps, .exact_log_probabilities = true};
    options.train.optimizer.learning_rate = 2.0;
    options.train.evaluate_every = 3;
    options.checkpoint.every_steps = 2;
    return options;
  }

  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

std::vector<float> values_of(const Weights& weights) {
  return {weights.values().begin(), weights.values().end()};
}

// A run from the start, or from the newest checkpoint, to `stop_after` steps (0: to the end).
struct TrainingRun {
  explicit TrainingRun(const TrainerOptions& given, FakeRolloutOptions rollouts = {},
                       CheckpointStore* store = nullptr, uint64_t schedule = 1)
      : options(given), executor(schedule), learner(table_weights(kVocabulary, 9)) {
    TrainState start;
    std::optional<Checkpoint> checkpoint = store == nullptr ? std::nullopt : store->newest();
    if (checkpoint) {
      start = checkpoint->state;
      learner.restore(load_model_weights(checkpoint->model_folder()), checkpoint->optimizer_folder());
    }
    rollouts.first_ordinal = start.next_ordinal;
    source.emplace(std::move(rollouts), run(executor, learner.snapshot()));
    parts.emplace(TrainerParts{.learner = learner, .source = *source, .checkpoints = store});
    parts->on_step = [this](int64_t step, const MetricMap& metrics) {
      steps.emplace_back(step, metrics);
      if (step == stop_after) trainer->request_stop();
    };
    begin = start;
  }
  TrainSummary go() {
    trainer.emplace(options, *parts, begin);
    return run(executor, trainer->run());
  }
  std::vector<float> weights() { return values_of(*run(executor, learner.snapshot())); }

  TrainerOptions options;
  SimulatedExecutor executor;
  TableLearner learner;
  std::optional<FakeRollouts> source;
  std::optional<TrainerParts> parts;
  std::optional<Trainer> trainer;
  TrainState begin;
  int64_t stop_after = -1;
  std::vector<std::pair<int64_t, MetricMap>> steps;
};

TEST_F(TrainerTest, LearnsWhatIsRewarded) {
  TrainingRun training(options_for(60));
  TrainSummary summary = training.go();
  EXPECT_EQ(summary.state.step, 60);
  // Once every sample earns all there is to earn, groups have no variance and steps nothing to train.
  EXPECT_EQ(summary.state.version + summary.state.skipped_steps, 60);
  EXPECT_LT(summary.state.skipped_steps, 30);
  EXPECT_FALSE(summary.interrupted);
  ASSERT_EQ(training.steps.size(), 60u);
  double first = training.steps.front().second.at("reward");
  double last = training.steps.back().second.at("reward");
  EXPECT_LT(first, 0.75);
  EXPECT_GT(last, 0.9);
  EXPECT_EQ(training.source->steps_finished(), summary.state.version);
}

TEST_F(TrainerTest, LearningRateZeroChangesNothing) {
  TrainerOptions options = options_for(5);
  options.train.optimizer.learning_rate = 0;
  TrainingRun training(options);
  training.go();
  EXPECT_EQ(training.weights(), values_of(table_weights(kVocabulary, 9)));
}

TEST_F(TrainerTest, EveryStepHasTheNumbersUsersLookFor) {
  TrainingRun training(options_for(3));
  training.go();
  for (const char* name : {"reward",
                           "reward_std",
                           "frac_reward_zero_std",
                           "loss",
                           "entropy",
                           "grad_norm",
                           "learning_rate",
                           "clip_ratio/region_mean",
                           "clip_ratio/low_mean",
                           "clip_ratio/high_mean",
                           "sampling/lag_0/k1",
                           "sampling/lag_0/k3",
                           "sampling/lag_0/logp_difference/max",
                           "sampling/sampling_logp_difference/mean",
                           "staleness/trained_lag/mean",
                           "num_tokens",
                           "episodes",
                           "step_time",
                           "time/generate",
                           "time/tools",
                           "time/train",
                           "time/publish",
                           "time/checkpoint",
                           "tokens/trained"}) {
    EXPECT_EQ(training.steps[1].second.count(name), 1u) << name;
  }
  EXPECT_EQ(training.steps[1].second.at("sampling/lag_0/logp_difference/max"), 0.0);
  EXPECT_NEAR(training.steps[1].second.at("step_time"), 0.5, 1e-9);
  EXPECT_EQ(training.steps[2].second.at("episodes"), 48.0);
  EXPECT_EQ(training.steps[0].first, 1);
}

TEST_F(TrainerTest, EndsWithTheSourceWhenItIsOverEarlier) {
  TrainingRun training(options_for(50), {.total_steps = 4});
  EXPECT_EQ(training.go().state.step, 4);
}

TEST_F(TrainerTest, CFG_07_StepWithoutTrainableTokensIsSkippedAndCounted) {
  FakeRolloutOptions rollouts;
  rollouts.edit = [](EpisodeRecord& episode) {
    // Of the second and the third batch no episode has a reward of its own.
    if (episode.id.task_ordinal >= 4 && episode.id.task_ordinal < 8) episode.reward = std::nullopt;
    if (episode.id.task_ordinal >= 8 && episode.id.task_ordinal < 12) episode.reward = 0.25;
  };
  TrainingRun training(options_for(5), rollouts);
  TrainSummary summary = training.go();
  EXPECT_EQ(summary.state.step, 5);
  EXPECT_EQ(summary.state.version, 3);
  EXPECT_EQ(summary.state.skipped_steps, 2);
  EXPECT_EQ(training.learner.updates, 3);
  EXPECT_EQ(training.source->steps_finished(), 3);
  ASSERT_EQ(training.steps.size(), 5u);
  EXPECT_EQ(training.steps[1].second.count("loss"), 0u);
  EXPECT_EQ(training.steps[1].second.at("rows/unscored"), 16.0);
  EXPECT_EQ(training.steps[2].second.at("frac_reward_zero_std"), 1.0);
  EXPECT_EQ(training.steps[4].second.at("skipped_steps"), 2.0);
}

TEST_F(TrainerTest, AllStepsSkippedLeaveTheWeightsAlone) {
  FakeRolloutOptions rollouts;
  rollouts.edit = [](EpisodeRecord& episode) { episode.reward = std::nullopt; };
  TrainingRun training(options_for(3), rollouts);
  EXPECT_EQ(training.go().state.skipped_steps, 3);
  EXPECT_EQ(training.weights(), values_of(table_weights(kVocabulary, 9)));
  for (float momentum : training.learner.momentum()) ASSERT_EQ(momentum, 0.0f);
}

TEST_F(TrainerTest, ResumedRunEndsInTheSameBits) {
  FakeRolloutOptions rollouts;
  rollouts.edit = [](EpisodeRecord& episode) {
    // Makes the third batch a skipped step, so that step and version differ.
    if (episode.id.task_ordinal >= 8 && episode.id.task_ordinal < 12) episode.reward = 1.0;
  };
  TrainingRun whole(options_for(9), rollouts);
  TrainSummary expected = whole.go();
  ASSERT_EQ(expected.state.skipped_steps, 1);

  for (int64_t stop_after = 1; stop_after < 9; ++stop_after) {
    CheckpointStore store(folder_ / std::to_string(stop_after), 2);
    TrainingRun first(options_for(9), rollouts, &store, 2);
    first.stop_after = stop_after;
    TrainSummary interrupted = first.go();
    EXPECT_TRUE(interrupted.interrupted);
    EXPECT_EQ(interrupted.state.step, stop_after);
    ASSERT_TRUE(interrupted.checkpoint.has_value());

    TrainingRun second(options_for(9), rollouts, &store, 3);
    EXPECT_EQ(second.begin.step, stop_after);
    TrainSummary finished = second.go();
    EXPECT_EQ(second.weights(), whole.weights()) << "stopped after step " << stop_after;
    EXPECT_EQ(finished.state, expected.state);
    EXPECT_TRUE(std::ranges::equal(second.learner.momentum(), whole.learner.momentum()));
    ASSERT_EQ(second.steps.size(), static_cast<size_t>(9 - stop_after));
    EXPECT_EQ(second.steps.back().second.at("loss"), whole.steps.back().second.at("loss"));
  }
}

TEST_F(TrainerTest, CKP_01_CheckpointAtTheLastStepResumesToNothing) {
  CheckpointStore store(folder_, 2);
  TrainingRun first(options_for(4), {}, &store);
  first.go();
  TrainingRun again(options_for(4), {}, &store);
  TrainSummary summary = again.go();
  EXPECT_EQ(summary.state.step, 4);
  EXPECT_TRUE(again.steps.empty());
  EXPECT_EQ(again.source->batches(), 0);

  TrainingRun longer(options_for(6), {}, &store);
  longer.go();
  ASSERT_EQ(longer.steps.size(), 2u);
  EXPECT_EQ(longer.steps[0].first, 5);
}

TEST_F(TrainerTest, CheckpointsComeOnTheirCadenceAndAtTheEnd) {
  TrainerOptions options = options_for(7);
  options.checkpoint.every_steps = 3;
  CheckpointStore store(folder_, 10);
  TrainingRun training(options, {}, &store);
  TrainSummary summary = training.go();
  EXPECT_EQ(summary.checkpoint->filename(), "step_7");
  for (int step : {3, 6, 7}) EXPECT_TRUE(fs::exists(folder_ / ("step_" + std::to_string(step)) / "complete"));
  EXPECT_FALSE(fs::exists(folder_ / "step_2"));
}

TEST_F(TrainerTest, LaggedSamplesAreTrainedAndTheLagIsReported) {
  TrainingRun training(options_for(6), {.lag = 2});
  training.go();
  EXPECT_EQ(training.steps[0].second.at("staleness/trained_lag/max"), 0.0);
  EXPECT_EQ(training.steps[5].second.at("staleness/trained_lag/max"), 2.0);
  EXPECT_GT(training.steps[5].second.at("sampling/lagged/logp_difference/max"), 0.0);
}

// Scores are given; each evaluation takes a while and can see that its weights stay what they were.
class ScriptedEvaluator final : public Evaluator {
 public:
  Task<Evaluation> evaluate(WeightsPtr weights, int64_t step) override {
    started.push_back(step);
    std::vector<float> before = values_of(*weights);
    co_await sleep_for(from_seconds(seconds));
    if (step == throw_at) throw internal_error("the evaluation broke");
    EXPECT_EQ(values_of(*weights), before);
    versions.push_back(weights->version());
    co_return Evaluation{.score = scores.contains(step) ? scores.at(step) : 0.0,
                         .metrics = {{"pass@1", 0.5}}};
  }
  double seconds = 0.1;
  int64_t throw_at = -1;
  std::map<int64_t, double> scores;
  std::vector<int64_t> started;
  std::vector<int64_t> versions;
};

TEST_F(TrainerTest, EvaluatesBeforeDuringAndAfterBesideTraining) {
  ScriptedEvaluator evaluator;
  evaluator.scores = {{0, 0.1}, {3, 0.4}, {6, 0.9}, {8, 0.9}};
  evaluator.seconds = 1.2;
  CheckpointStore store(folder_, 1);
  TrainingRun training(options_for(8), {}, &store);
  training.parts->evaluator = &evaluator;
  std::vector<int64_t> reported;
  training.parts->on_evaluation = [&](int64_t step, const Evaluation&) { reported.push_back(step); };
  training.go();
  EXPECT_EQ(reported, (std::vector<int64_t>{0, 3, 6, 8}));
  EXPECT_EQ(evaluator.versions, (std::vector<int64_t>{0, 3, 6, 8}));
  EXPECT_EQ(store.best()->step, 6);
  EXPECT_EQ(store.best()->score, 0.9);
  // Eight steps of 0.5 s, and the last evaluation behind them: none of the others was waited for.
  EXPECT_NEAR(to_seconds(training.executor.now()), 4.0 + 1.2, 0.4);
}

TEST_F(TrainerTest, SlowEvaluationsHoldTrainingBackInsteadOfBeingLeftOut) {
  ScriptedEvaluator evaluator;
  evaluator.seconds = 10;
  TrainerOptions options = options_for(6);
  options.train.evaluate_every = 1;
  TrainingRun training(options);
  training.parts->evaluator = &evaluator;
  training.go();
  EXPECT_EQ(evaluator.started, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST_F(TrainerTest, BrokenEvaluationEndsTheRunWithItsErrorAndACheckpoint) {
  ScriptedEvaluator evaluator;
  evaluator.throw_at = 3;
  evaluator.seconds = 0.7;
  CheckpointStore store(folder_, 1);
  TrainerOptions options = options_for(1000);
  TrainingRun training(options, {}, &store);
  training.parts->evaluator = &evaluator;
  EXPECT_THROW(training.go(), Error);
  EXPECT_LT(training.steps.size(), 10u);
  EXPECT_EQ(store.newest()->state.step, static_cast<int64_t>(training.steps.size()));
}

TEST_F(TrainerTest, StopDoesNotWaitForEvaluations) {
  ScriptedEvaluator evaluator;
  evaluator.seconds = 1000;
  TrainingRun training(options_for(50));
  training.parts->evaluator = &evaluator;
  training.stop_after = 2;
  EXPECT_TRUE(training.go().interrupted);
  EXPECT_LT(to_seconds(training.executor.now()), 5.0);
}

TEST_F(TrainerTest, AnEvaluationCutOffByAStopIsRepeatedOnResume) {
  for (int64_t stop_after : {3, 4}) {  // at the evaluation's own checkpoint, and past it
    CheckpointStore store(folder_ / std::to_string(stop_after), 3);
    TrainerOptions options = options_for(7);
    options.train.evaluate_at_start = false;
    options.checkpoint.every_steps = 1;
    ScriptedEvaluator slow;
    slow.seconds = 1000;
    TrainingRun first(options, {}, &store);
    first.parts->evaluator = &slow;
    first.stop_after = stop_after;
    first.go();
    EXPECT_EQ(store.newest()->state.unfinished_evaluations, (std::vector<int64_t>{3}));

    ScriptedEvaluator quick;
    TrainingRun second(options, {}, &store);
    second.parts->evaluator = &quick;
    second.go();
    const std::vector<int64_t> expected =
        stop_after == 3 ? std::vector<int64_t>{3, 6, 7} : std::vector<int64_t>{6, 7};
    EXPECT_EQ(quick.started, expected);
    EXPECT_EQ(quick.versions, expected);
  }
}

Task<> stop_later(Trainer* trainer, double seconds) {
  co_await sleep_for(from_seconds(seconds));
  trainer->request_stop();
}

Task<> run_and_stop(Trainer* trainer, double seconds, TrainSummary* summary) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(stop_later(trainer, seconds), "stop");
  *summary = co_await trainer->run();
  co_await scope.join();
}

// A run that is stopped after so many seconds ends at once, its last step, the third, saved.
void expect_stop_saves_step_3(const std::filesystem::path& folder, const TrainerOptions& options,
                              const FakeRolloutOptions& rollouts, double seconds) {
  CheckpointStore store(folder, 1);
  TrainingRun training(options, rollouts, &store);
  training.trainer.emplace(training.options, *training.parts, training.begin);
  TrainSummary summary;
  run(training.executor, run_and_stop(&*training.trainer, seconds, &summary));
  EXPECT_TRUE(summary.interrupted);
  EXPECT_EQ(summary.state.step, 3);
  EXPECT_EQ(store.newest()->state.step, 3);
  EXPECT_NEAR(to_seconds(training.executor.now()), seconds, 0.5);
}

TEST_F(TrainerTest, StopWhileWaitingForABatchSavesTheLastStep) {
  expect_stop_saves_step_3(folder_, options_for(100), {.latency_seconds = 10}, 35);
}

TEST_F(TrainerTest, StopDoesNotWaitUntilTheWeightsServe) {
  expect_stop_saves_step_3(folder_, options_for(100), {.publish_seconds = 10}, 25);
}

TEST_F(TrainerTest, StopEndsAnEvaluationThatTrainingWaitsFor) {
  for (double seconds : {1.8, 20.0}) {  // while steps wait for evaluations, and during the last one
    ScriptedEvaluator evaluator;
    evaluator.seconds = 1000;
    TrainerOptions options = options_for(4);
    options.train.evaluate_every = seconds < 10 ? 1 : 0;
    options.train.evaluate_at_start = seconds < 10;
    TrainingRun training(options);
    training.parts->evaluator = &evaluator;
    training.trainer.emplace(training.options, *training.parts, training.begin);
    TrainSummary summary;
    run(training.executor, run_and_stop(&*training.trainer, seconds, &summary));
    EXPECT_TRUE(summary.interrupted);
    EXPECT_TRUE(evaluator.versions.empty());
    EXPECT_NEAR(to_seconds(training.executor.now()), seconds, 0.6);
  }
}

class BrokenSource final : public RolloutSource {
 public:
  Task<std::optional<RolloutBatch>> next_batch() override {
    co_await sleep_for(from_seconds(1));
    throw internal_error("the producer died");
  }
  Task<> step_finished(WeightsPtr) override { co_return; }
  uint64_t next_ordinal() const override { return 0; }
  std::vector<uint64_t> open_ordinals() const override { return {}; }
};

TEST_F(TrainerTest, QUE_03_ErrorsOfTheProducerEndTheRun) {
  TableLearner learner(table_weights(kVocabulary, 1));
  BrokenSource source;
  Trainer trainer(options_for(5), {.learner = learner, .source = source}, {});
  SimulatedExecutor executor(1);
  EXPECT_THROW(run(executor, trainer.run()), Error);
}

TEST_F(TrainerTest, SettingsThatTeachNothingAreRefused) {
  EXPECT_THROW(check_training({}, 1, 1.0), Error);
  EXPECT_THROW(check_training({}, 8, 0.0), Error);
  check_training({}, 8, 1.0);
}

TEST_F(TrainerTest, LearnerOfAnotherVersionIsRefused) {
  TableLearner learner(table_weights(kVocabulary, 1));
  BrokenSource source;
  EXPECT_THROW(Trainer(options_for(5), {.learner = learner, .source = source}, {.step = 2, .version = 2}),
               Error);
}

}  // namespace
}  // namespace stoker
