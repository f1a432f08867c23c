#include "algorithm/policy_loss.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace stoker {
namespace {

struct Tokens {
  std::vector<float> log_probability, behaviour;
  std::vector<double> advantage, weight;

  void add(double current, double old, double token_advantage, double token_weight = 1.0) {
    log_probability.push_back(static_cast<float>(current));
    behaviour.push_back(static_cast<float>(old));
    advantage.push_back(token_advantage);
    weight.push_back(token_weight);
  }
  PolicyLossInput input(size_t begin, size_t count) const {
    return {std::span(log_probability).subspan(begin, count), std::span(behaviour).subspan(begin, count),
            std::span(advantage).subspan(begin, count), std::span(weight).subspan(begin, count)};
  }
  PolicyLossInput input() const { return input(0, log_probability.size()); }
};

Tokens random_tokens(uint64_t seed, int count) {
  RandomStream random({.run_seed = seed, .purpose = RandomPurpose::kData});
  Tokens tokens;
  for (int i = 0; i < count; ++i) {
    double behaviour = -3.0 * random.uniform();
    double advantage = random.uniform() < 0.2 ? 0.0 : random.normal();
    tokens.add(behaviour + 0.5 * random.normal(), behaviour, advantage, random.uniform() / count);
  }
  return tokens;
}

PolicyLossResult single(double ratio, double advantage, const PolicyLossOptions& options = {}) {
  Tokens tokens;
  tokens.add(std::log(ratio), 0.0, advantage);
  return clipped_policy_loss(tokens.input(), options);
}

TEST(PolicyLoss, OnPolicyIsTheAdvantage) {
  PolicyLossResult result = single(1.0, 0.7);
  EXPECT_EQ(result.loss, -0.7);
  EXPECT_EQ(result.coefficient, std::vector<float>{-0.7f});
  EXPECT_EQ(result.clipped_high + result.clipped_low, 0.0);
  EXPECT_EQ(result.ratio_max, 1.0);
}

TEST(PolicyLoss, ClipsOnlyTheSideThatWouldGoOn) {
  PolicyLossOptions options{.clip_low = 0.2, .clip_high = 0.28};
  PolicyLossResult high = single(1.5, 1.0, options);
  EXPECT_NEAR(high.loss, -1.28, 1e-12);
  EXPECT_EQ(high.coefficient[0], 0.0f);
  EXPECT_EQ(high.clipped_high, 1.0);
  EXPECT_EQ(high.clipped_low, 0.0);

  PolicyLossResult low = single(0.5, -1.0, options);
  EXPECT_NEAR(low.loss, 0.8, 1e-12);
  EXPECT_EQ(low.coefficient[0], 0.0f);
  EXPECT_EQ(low.clipped_low, 1.0);

  PolicyLossResult back_up = single(0.5, 1.0, options);
  EXPECT_NEAR(back_up.loss, -0.5, 1e-6);
  EXPECT_NEAR(back_up.coefficient[0], -0.5, 1e-6);
  EXPECT_EQ(back_up.clipped_low + back_up.clipped_high, 0.0);

  PolicyLossResult back_down = single(5.0, -1.0, options);
  EXPECT_NEAR(back_down.loss, 5.0, 1e-5);
  EXPECT_NEAR(back_down.coefficient[0], 5.0, 1e-5);
}

TEST(PolicyLoss, CoefficientsMatchFiniteDifferences) {
  Tokens tokens = random_tokens(3, 400);
  PolicyLossOptions options;
  PolicyLossResult result = clipped_policy_loss(tokens.input(), options);
  int clipped = 0;
  for (size_t i = 0; i < tokens.log_probability.size(); ++i) {
    double ratio = std::exp(double{tokens.log_probability[i]} - double{tokens.behaviour[i]});
    bool at_kink = std::abs(ratio - 0.8) < 0.01 || std::abs(ratio - 1.28) < 0.01;
    if (at_kink) continue;
    Tokens above = tokens, below = tokens;
    above.log_probability[i] += 1e-3f;
    below.log_probability[i] -= 1e-3f;
    double difference = double{above.log_probability[i]} - double{below.log_probability[i]};
    double slope = (clipped_policy_loss(above.input(i, 1), options).loss -
                    clipped_policy_loss(below.input(i, 1), options).loss) /
                   difference;
    EXPECT_NEAR(result.coefficient[i], slope, 1e-5 * std::abs(slope) + 1e-12) << i;
    clipped += result.coefficient[i] == 0.0f && tokens.advantage[i] != 0.0 ? 1 : 0;
  }
  EXPECT_GT(clipped, 20);
  EXPECT_EQ(clipped > 0, result.clipped_low + result.clipped_high > 0);
}

TEST(PolicyLoss, AnySplitAddsUpToTheSameSums) {
  Tokens tokens = random_tokens(7, 300);
  PolicyLossOptions options;
  PolicyLossResult whole = clipped_policy_loss(tokens.input(), options);
  RandomStream random({.run_seed = 8, .purpose = RandomPurpose::kData});
  for (int round = 0; round < 50; ++round) {
    PolicyLossResult sum;
    for (size_t begin = 0; begin < 300;) {
      size_t count = std::min<size_t>(300 - begin, random.below(40));
      PolicyLossResult part = clipped_policy_loss(tokens.input(begin, count), options);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(part.coefficient[i], whole.coefficient[begin + i]);
      sum.loss += part.loss;
      sum.clipped_low += part.clipped_low;
      sum.clipped_high += part.clipped_high;
      sum.ratio_sum += part.ratio_sum;
      sum.tokens += part.tokens;
      begin += count;
    }
    EXPECT_NEAR(sum.loss, whole.loss, 1e-12);
    EXPECT_EQ(sum.clipped_low, whole.clipped_low);
    EXPECT_EQ(sum.clipped_high, whole.clipped_high);
    EXPECT_NEAR(sum.ratio_sum, whole.ratio_sum, 1e-9);
    EXPECT_EQ(sum.tokens, whole.tokens);
  }
}

TEST(PolicyLoss, ADV_15_StaysFiniteFarOffPolicy) {
  for (double advantage : {1.0, -1.0, 0.0}) {
    for (double current : {-100.0, -1.0}) {
      Tokens tokens;
      tokens.add(current, -101.0 - current, advantage);
      PolicyLossResult result = clipped_policy_loss(tokens.input(), {});
      EXPECT_TRUE(std::isfinite(result.loss));
      EXPECT_TRUE(std::isfinite(result.coefficient[0]));
      EXPECT_TRUE(std::isfinite(result.ratio_sum));
    }
  }
}

TEST(PolicyLoss, NothingInNothingOut) {
  PolicyLossResult result = clipped_policy_loss({}, {});
  EXPECT_EQ(result.loss, 0.0);
  EXPECT_EQ(result.tokens, 0);
  EXPECT_TRUE(result.coefficient.empty());
}

TEST(PolicyLoss, UnequalLengthsAreABrokenPromise) {
  Tokens tokens = random_tokens(1, 4);
  tokens.weight.pop_back();
  EXPECT_THROW(
      clipped_policy_loss({tokens.log_probability, tokens.behaviour, tokens.advantage, tokens.weight}, {}),
      Error);
}

double aggregate(const std::vector<std::vector<double>>& losses, LossAggregation aggregation) {
  std::vector<int64_t> counts;
  for (const auto& row : losses) counts.push_back(static_cast<int64_t>(row.size()));
  std::vector<double> weights = aggregation_weights(counts, aggregation);
  double sum = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    for (double loss : losses[i]) sum += weights[i] * loss;
  }
  return sum;
}

TEST(Aggregation, ADV_11_TokenMeanOverTheAccumulationWindow) {
  EXPECT_NEAR(aggregate({{1, 1}, std::vector<double>(8, 0.0)}, LossAggregation::kTokenMean), 0.2, 1e-15);
  EXPECT_NEAR(aggregate({{1, 1}, std::vector<double>(8, 0.0)}, LossAggregation::kSequenceMean), 0.5, 1e-15);
}

TEST(Aggregation, ADV_13_GlobalDenominator) {
  EXPECT_NEAR(aggregate({{1, 1, 1}, {0}}, LossAggregation::kTokenMean), 0.75, 1e-15);
}

TEST(Aggregation, EmptySequencesDoNotCount) {
  for (auto aggregation : {LossAggregation::kTokenMean, LossAggregation::kSequenceMean}) {
    EXPECT_NEAR(aggregate({{3, 3}, {}, {3}}, aggregation), 3.0, 1e-15);
    EXPECT_EQ(aggregate({{}, {}}, aggregation), 0.0);
    EXPECT_EQ(aggregate({}, aggregation), 0.0);
  }
}

}  // namespace
}  // namespace stoker
