#include "train/policy_step.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/error.h"
#include "train/testing/fake_rollouts.h"
#include "train/testing/table_learner.h"

namespace stoker {
namespace {

using testing::FakeRollouts;
using testing::table_log_probabilities;
using testing::table_weights;
using testing::TableLearner;

constexpr int32_t kVocabulary = 11;

WeightsPtr shared(Weights weights) { return std::make_shared<const Weights>(std::move(weights)); }

RolloutBatch sample_batch(const WeightsPtr& weights) {
  FakeRollouts source({.groups_per_batch = 3, .group_size = 4}, weights);
  SimulatedExecutor executor(1);
  return *run(executor, source.next_batch());
}

// The objective by its definition, episode by episode in double precision.
double slow_twin_loss(const RolloutBatch& rollout, const Weights& weights, const PolicyLossOptions& options) {
  double sum = 0;
  int64_t tokens = 0;
  for (const Group& group : rollout.groups) {
    double mean = 0, squares = 0;
    auto count = static_cast<double>(group.episodes.size());
    for (const auto& episode : group.episodes) mean += *episode.reward / count;
    for (const auto& episode : group.episodes) squares += (*episode.reward - mean) * (*episode.reward - mean);
    for (const auto& episode : group.episodes) {
      double advantage = (*episode.reward - mean) / (std::sqrt(squares / (count - 1)) + 1e-4);
      const Trajectory& trajectory = episode.trajectory;
      for (int32_t i = 0; i < trajectory.size(); ++i) {
        if (!trajectory.trained(i)) continue;
        ++tokens;
        double current =
            table_log_probabilities(weights, trajectory.tokens().first(i), 1.0f)[trajectory.tokens()[i]];
        double ratio = std::exp(current - trajectory.log_probability(i));
        sum -= std::min(ratio * advantage,
                        std::clamp(ratio, 1 - options.clip_low, 1 + options.clip_high) * advantage);
      }
    }
  }
  return sum / static_cast<double>(tokens);
}

struct Outcome {
  PolicyStepResult result;
  std::vector<float> weights;
};

Outcome step_once(const RolloutBatch& rollout, const Weights& start, const BatchBuilderOptions& builder) {
  TableLearner learner(start, {.max_gradient_norm = 0});
  SimulatedExecutor executor(1);
  TrainingBatch training = build_training_batch(rollout, builder);
  Outcome outcome{run(executor, policy_step(learner, training, {}, 0.1)), {}};
  WeightsPtr weights = run(executor, learner.snapshot());
  outcome.weights.assign(weights->values().begin(), weights->values().end());
  return outcome;
}

TEST(PolicyStep, LossAndGradientMatchTheDefinition) {
  Weights behaviour = table_weights(kVocabulary, 1);
  RolloutBatch rollout = sample_batch(shared(behaviour));
  Weights current = behaviour;
  for (size_t i = 0; i < current.values().size(); ++i)
    current.values()[i] += 0.05f * std::sin(static_cast<float>(i));
  Outcome outcome = step_once(rollout, current, {.zero_variance = ZeroVariance::kTrain});
  EXPECT_NEAR(outcome.result.loss, slow_twin_loss(rollout, current, {}), 1e-6);

  // The step is -0.1 times the gradient, which finite differences of the definition must give.
  int checked = 0;
  for (size_t i = 0; i < current.values().size(); i += 7) {
    float gradient = (current.values()[i] - outcome.weights[i]) / 0.1f;
    Weights above = current, below = current;
    above.values()[i] += 2e-2f;
    below.values()[i] -= 2e-2f;
    double slope = (slow_twin_loss(rollout, above, {}) - slow_twin_loss(rollout, below, {})) / 4e-2;
    EXPECT_NEAR(gradient, slope, 2e-3) << i;
    checked += std::abs(slope) > 1e-3 ? 1 : 0;
  }
  EXPECT_GT(checked, 5);
}

TEST(PolicyStep, AnySplitGivesTheSameUpdate) {
  Weights start = table_weights(kVocabulary, 2);
  RolloutBatch rollout = sample_batch(shared(start));
  Outcome whole = step_once(rollout, start, {.micro_batch_tokens = 1 << 20});
  for (int64_t budget : {1, 20, 33, 60}) {
    Outcome parts = step_once(rollout, start, {.micro_batch_tokens = budget});
    EXPECT_NEAR(parts.result.loss, whole.result.loss, 1e-12);
    EXPECT_NEAR(parts.result.step.gradient_norm, whole.result.step.gradient_norm, 1e-9);
    EXPECT_NEAR(parts.result.entropy_sum, whole.result.entropy_sum, 1e-4);
    EXPECT_EQ(parts.result.tokens, whole.result.tokens);
    for (size_t i = 0; i < whole.weights.size(); ++i) EXPECT_NEAR(parts.weights[i], whole.weights[i], 1e-6);
  }
}

TEST(PolicyStep, SkippedGroupsChangeNothingButTheCost) {
  Weights start = table_weights(kVocabulary, 3);
  RolloutBatch rollout = sample_batch(shared(start));
  for (EpisodeRecord& episode : rollout.groups[1].episodes) episode.reward = 0.3;
  Outcome skip = step_once(rollout, start, {.zero_variance = ZeroVariance::kSkip});
  Outcome train = step_once(rollout, start, {.zero_variance = ZeroVariance::kTrain});
  EXPECT_LT(skip.result.tokens, train.result.tokens);
  for (size_t i = 0; i < skip.weights.size(); ++i) EXPECT_NEAR(skip.weights[i], train.weights[i], 1e-6);
}

TEST(PolicyStep, OnTheSamplersWeightsTheDifferenceIsExactlyZero) {
  Weights start = table_weights(kVocabulary, 4);
  Outcome outcome = step_once(sample_batch(shared(start)), start, {});
  EXPECT_GT(outcome.result.current.tokens, 0);
  EXPECT_EQ(outcome.result.current.difference_max, 0.0);
  EXPECT_EQ(outcome.result.current.k3_sum, 0.0);
  EXPECT_EQ(outcome.result.ratio_max, 1.0);
  EXPECT_EQ(outcome.result.lagged.tokens + outcome.result.mixed.tokens, 0);
  EXPECT_EQ(outcome.result.step.version, 1);
}

TEST(PolicyStep, SplitsTheDisagreementByLag) {
  Weights start = table_weights(kVocabulary, 5);
  start.set_version(7);
  RolloutBatch rollout = sample_batch(shared(start));
  Weights newer = start;
  newer.set_version(9);
  for (float& value : newer.values()) value *= 1.1f;
  Outcome outcome = step_once(rollout, newer, {});
  EXPECT_EQ(outcome.result.current.tokens, 0);
  EXPECT_EQ(outcome.result.lagged.tokens, outcome.result.tokens);
  EXPECT_GT(outcome.result.lagged.k3(), 0.0);
  EXPECT_EQ(outcome.result.lag_max, 2);
  EXPECT_EQ(outcome.result.lag_sum, 2 * outcome.result.tokens);

  MetricMap metrics;
  add_metrics(outcome.result, metrics);
  EXPECT_EQ(metrics.count("sampling/lag_0/k3"), 0u);
  EXPECT_GT(metrics.at("sampling/lagged/k3"), 0.0);
  EXPECT_EQ(metrics.at("staleness/trained_lag/mean"), 2.0);

  Weights older = start;
  older.set_version(3);
  EXPECT_THROW(step_once(rollout, older, {}), Error);
}

TEST(PolicyStep, DivergenceStopsBeforeTheUpdate) {
  Weights start = table_weights(kVocabulary, 6);
  RolloutBatch rollout = sample_batch(shared(start));
  Weights broken = start;
  broken.values()[0] = std::numeric_limits<float>::quiet_NaN();
  for (float& value : broken.values()) value = std::numeric_limits<float>::quiet_NaN();
  TableLearner learner(broken);
  SimulatedExecutor executor(1);
  TrainingBatch training = build_training_batch(rollout, {});
  EXPECT_THROW(run(executor, policy_step(learner, training, {}, 0.1)), Error);
  EXPECT_EQ(learner.updates, 0);
}

TEST(BatchMetrics, MET_01_RewardIsTheRewardAsTrained) {
  BatchCounts counts{.groups = 2,
                     .zero_variance_groups = 1,
                     .rows = 4,
                     .trained_rows = 2,
                     .reward_sum = 0.7,
                     .scored_rows = 1,
                     .reward_std_sum = 0.5,
                     .scored_groups = 1};
  MetricMap metrics;
  add_metrics(counts, metrics);
  EXPECT_EQ(metrics.at("reward"), 0.7);
  EXPECT_EQ(metrics.at("frac_reward_zero_std"), 0.5);
  MetricMap empty;
  add_metrics(BatchCounts{}, empty);
  EXPECT_EQ(empty.count("reward"), 0u);
}

}  // namespace
}  // namespace stoker
