#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "compute/cpu/cpu_learner.h"
#include "compute/cpu/test_support.h"

namespace stoker::cpu {
namespace {

TEST(CpuLearnerState, ScoreTakesSnapshotsAndOtherWeights) {
  const ModelConfig config = odd_config();
  LearnerBench bench(random_weights(config, 81)), other(random_weights(config, 82));
  const Batch batch = forest(config.vocab_size, 83);
  const Scores before = bench.score(batch);
  const WeightsPtr snapshot = bench.snapshot();
  EXPECT_EQ(bench.snapshot(), snapshot);
  EXPECT_EQ(snapshot->version(), 0);
  bench.accumulate(batch);
  EXPECT_EQ(bench.step(0.01).version, 1);
  EXPECT_NE(bench.snapshot(), snapshot);
  EXPECT_EQ(bench.snapshot()->version(), 1);
  EXPECT_NE(first_difference(bench.score(batch).log_probability, before.log_probability), -1);
  EXPECT_EQ(first_difference(bench.score(batch, snapshot).log_probability, before.log_probability), -1);
  EXPECT_EQ(first_difference(bench.score(batch, other.snapshot()).log_probability,
                             other.score(batch).log_probability),
            -1);
  EXPECT_EQ(first_difference(bench.score(batch, snapshot).log_probability, before.log_probability), -1);
}

TEST(CpuLearnerState, IdsBeyondTheTokenizerAreLeftOut) {
  const ModelConfig config = odd_config();
  const Weights weights = random_weights(config, 91);
  constexpr int32_t kVocabulary = 29;
  const Batch batch = forest(kVocabulary, 92);
  LearnerBench bench(weights, 1, {}, kVocabulary);
  bench.accumulate(batch, 0.5f);
  const std::span<const float> head = bench.learner().gradients().tensor("lm_head.weight");
  for (size_t i = kVocabulary * config.hidden_size; i < head.size(); ++i) EXPECT_EQ(head[i], 0.0f);
  EXPECT_NE(head[kVocabulary * config.hidden_size - 1], 0.0f);
  Batch outside = batch;
  outside.target[0] = kVocabulary;
  EXPECT_THROW(bench.forward(outside), Error);
  EXPECT_THROW(LearnerBench(weights, 1, {}, config.vocab_size + 1), Error);
}

TEST(CpuLearnerState, ZeroCoefficientsGiveNoGradient) {
  const ModelConfig config = odd_config();
  LearnerBench bench(random_weights(config, 95));
  ForwardResult result = bench.forward(forest(config.vocab_size, 96));
  bench.backward(std::move(result.tape),
                 {std::vector<float>(result.scores.log_probability.size(), 0.0f), {}, {}});
  for (const float gradient : bench.gradients()) EXPECT_EQ(gradient, 0.0f);
}

TEST(CpuLearnerState, RefusesWhatDoesNotFit) {
  const ModelConfig config = odd_config();
  const Weights weights = random_weights(config, 97);
  LearnerBench bench(weights);
  const Batch batch = forest(config.vocab_size, 98);
  ForwardResult result = bench.forward(batch);
  EXPECT_THROW(bench.backward(std::move(result.tape), {std::vector<float>(3, 1.0f), {}, {}}), Error);
  result = bench.forward(batch);
  EXPECT_THROW(
      bench.backward(std::move(result.tape), {{}, {}, std::vector<float>(batch.segment.size(), 1.0f)}),
      Error);
  result = bench.forward(batch);
  bench.step(0.1);
  EXPECT_THROW(bench.backward(std::move(result.tape), {}), Error);
  Batch long_batch;
  long_batch.segments.push_back(
      {random_tokens(config.max_position_embeddings + 1, 1, config.vocab_size), -1});
  EXPECT_THROW(bench.forward(long_batch), Error);
  EXPECT_NO_THROW(bench.forward(batch));
}

TEST(CpuLearnerState, ABatchWithoutPredictionsIsPossible) {
  const ModelConfig config = odd_config();
  LearnerBench bench(random_weights(config, 99), 2);
  Batch batch;
  batch.segments.push_back({{1, 2, 3}, -1});
  EXPECT_TRUE(bench.accumulate(batch).log_probability.empty());
  EXPECT_EQ(bench.step(0.1).gradient_norm, 0.0);
}

TEST(CpuLearnerState, OptimizerStateGoesToFilesAndBack) {
  const ModelConfig config = odd_config();
  const Weights weights = random_weights(config, 101);
  const Batch batch = forest(config.vocab_size, 102);
  const TestFolder test_folder;
  const std::filesystem::path& folder = test_folder.path();
  const OptimizerOptions options{.weight_decay = 0.05f};
  LearnerBench straight(weights, 1, options), resumed(random_weights(config, 103), 2, options);
  for (int i = 0; i < 3; ++i) straight.accumulate(batch), straight.step(0.01);
  straight.learner().save_optimizer(folder);
  resumed.accumulate(batch);
  resumed.learner().restore(*straight.snapshot(), folder);
  EXPECT_EQ(resumed.learner().version(), 3);
  for (int i = 0; i < 2; ++i) {
    straight.accumulate(batch), straight.step(0.01);
    resumed.accumulate(batch), resumed.step(0.01);
  }
  EXPECT_EQ(straight.snapshot()->digest(), resumed.snapshot()->digest());
  EXPECT_THROW(LearnerBench(random_weights(even_config(), 1)).learner().restore(*straight.snapshot(), folder),
               Error);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(resumed.learner().restore(*straight.snapshot(), folder), Error);
}

TEST(CpuLearnerState, ResettingTheOptimizerForgetsMomentsAndKeepsWeightsAndVersion) {
  const ModelConfig config = odd_config();
  const Batch batch = forest(config.vocab_size, 112);
  LearnerBench bench(random_weights(config, 111));
  bench.accumulate(batch), bench.step(0.01);
  const WeightsPtr after_one = bench.snapshot();
  bench.learner().reset_optimizer({});
  EXPECT_EQ(bench.learner().version(), 1);
  LearnerBench fresh(*after_one);
  bench.accumulate(batch), bench.step(0.01);
  fresh.accumulate(batch), fresh.step(0.01);
  EXPECT_TRUE(std::ranges::equal(bench.snapshot()->values(), fresh.snapshot()->values()));
}

TEST(CpuLearnerState, A4_GradientClippingActs) {
  const ModelConfig config = odd_config();
  const Batch batch = forest(config.vocab_size, 122);
  const Weights weights = random_weights(config, 121);
  const auto distance = [&](float limit) {
    LearnerBench bench(weights, 1, {.epsilon = 1e-3f, .max_gradient_norm = limit});
    bench.accumulate(batch), bench.step(0.01);
    return relative_error(bench.snapshot()->values(), weights.values());
  };
  EXPECT_LT(distance(1e-9f), 1e-7);
  EXPECT_GT(distance(1.0f), 1e-4);
  EXPECT_GT(distance(0.0f), distance(1e-3f));
}

TEST(CpuLearnerState, AStepWithANormThatIsNotFiniteChangesNoWeight) {
  const ModelConfig config = odd_config();
  const Batch batch = forest(config.vocab_size, 132);
  LearnerBench bench(random_weights(config, 131));
  ForwardResult result = bench.forward(batch);
  std::vector<float> coefficients(result.scores.log_probability.size(), 1.0f);
  coefficients[5] = INFINITY;
  const WeightsPtr before = bench.snapshot();
  bench.backward(std::move(result.tape), {coefficients, {}, {}});
  const StepResult step = bench.step(0.01);
  EXPECT_FALSE(std::isfinite(step.gradient_norm));
  EXPECT_EQ(step.version, 1);
  EXPECT_TRUE(std::ranges::equal(bench.snapshot()->values(), before->values()));
  for (const float gradient : bench.gradients()) EXPECT_EQ(gradient, 0.0f);
}

}  // namespace
}  // namespace stoker::cpu
