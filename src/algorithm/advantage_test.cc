#include "algorithm/advantage.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"

namespace stoker {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

GroupRewards rewards_of(std::initializer_list<double> values) {
  return GroupRewards(values.begin(), values.end());
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << "member " << i;
}

// The formula with Welford's running moments: another order of operations than the code under test.
std::vector<double> slow_twin(const GroupRewards& rewards, bool divide_by_std, double epsilon) {
  double mean = 0, squares = 0;
  int count = 0;
  for (const auto& reward : rewards) {
    if (!reward || !std::isfinite(*reward)) continue;
    ++count;
    double delta = *reward - mean;
    mean += delta / count;
    squares += delta * (*reward - mean);
  }
  std::vector<double> result(rewards.size(), 0.0);
  if (count < 2) return result;
  double std = std::sqrt(squares / (count - 1));
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (!rewards[i] || !std::isfinite(*rewards[i])) continue;
    result[i] = (*rewards[i] - mean) / (divide_by_std ? std + epsilon : 1.0);
  }
  return result;
}

TEST(Advantage, ADV_01_PartialGroupsKeepTheirOwnStatistics) {
  std::vector<GroupRewards> groups = {rewards_of({1, 0, 0}), rewards_of({1, 1, 0, 0})};
  auto result = batch_advantages(groups, AdvantageScale::kGroup, 0.0);
  expect_near(result[0].advantage, {1.1547, -.5774, -.5774}, 1e-4);
  expect_near(result[1].advantage, {.8660, .8660, -.8660, -.8660}, 1e-4);
}

TEST(Advantage, ADV_05_EqualRewardsGiveExactlyZero) {
  const std::pair<int, float> cases[] = {{7, 0.1f}, {6, 0.3f}, {3, 0.9f}, {8, -1e30f}};
  for (auto [count, reward] : cases) {
    GroupRewards rewards(count, static_cast<double>(reward));
    for (bool divide : {true, false}) {
      GroupAdvantages result = group_advantages(rewards, divide, 1e-8);
      EXPECT_TRUE(result.zero_variance);
      EXPECT_EQ(result.std, 0.0);
      EXPECT_EQ(result.mean, static_cast<double>(reward));
      for (double advantage : result.advantage) EXPECT_EQ(advantage, 0.0);
    }
  }
}

TEST(Advantage, ADV_07_RewardsThatCouldNotBeComputed) {
  GroupAdvantages one = group_advantages(rewards_of({kNan, kNan, kNan, 1.0}), true, 1e-4);
  EXPECT_TRUE(one.zero_variance);
  EXPECT_EQ(one.advantage, std::vector<double>(4, 0.0));
  EXPECT_EQ(one.scored, (std::vector<bool>{false, false, false, true}));

  GroupAdvantages three = group_advantages(rewards_of({kNan, 0, 1, 1}), true, 0.0);
  EXPECT_EQ(three.scored, (std::vector<bool>{false, true, true, true}));
  EXPECT_NEAR(three.mean, 2.0 / 3.0, 1e-15);
  expect_near(three.advantage, {0, -1.1547, .5774, .5774}, 1e-4);

  GroupRewards absent = {std::nullopt, 0.0, 1.0, 1.0};
  EXPECT_EQ(group_advantages(absent, true, 0.0).advantage, three.advantage);
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(group_advantages(rewards_of({infinity, 0, 1, 1}), true, 0.0).advantage, three.advantage);
}

TEST(Advantage, ADV_09_NormalisedOncePerPrompt) {
  std::vector<GroupRewards> groups = {rewards_of({1, 0}), rewards_of({10, 0})};
  for (const auto& group : batch_advantages(groups, AdvantageScale::kGroup, 0.0)) {
    expect_near(group.advantage, {.7071, -.7071}, 1e-4);
  }
}

TEST(Advantage, ADV_17_ZeroIsAReward) {
  GroupRewards rewards = {0.0, 1.0, std::nullopt};
  GroupAdvantages result = group_advantages(rewards, false, 0.0);
  EXPECT_EQ(result.advantage, (std::vector<double>{-0.5, 0.5, 0.0}));
  EXPECT_EQ(result.scored, (std::vector<bool>{true, true, false}));
}

TEST(Advantage, FailedMembersLeaveTheGroup) {
  GroupRewards with_failures = {1.0, 0.0, std::nullopt, std::nullopt};
  GroupAdvantages expected = group_advantages(rewards_of({1, 0}), true, 1e-4);
  GroupAdvantages result = group_advantages(with_failures, true, 1e-4);
  EXPECT_EQ(result.advantage[0], expected.advantage[0]);
  EXPECT_EQ(result.advantage[1], expected.advantage[1]);

  GroupRewards all_failed(4);
  EXPECT_TRUE(group_advantages(all_failed, true, 1e-4).zero_variance);
  EXPECT_TRUE(group_advantages(GroupRewards{}, true, 1e-4).zero_variance);
}

TEST(Advantage, NearlySolvedGroup) {
  GroupAdvantages result = group_advantages(rewards_of({1, 1, 1, 1, 1, 1, 1, 0}), true, 0.0);
  expect_near(result.advantage, {.354, .354, .354, .354, .354, .354, .354, -2.475}, 1e-3);
}

TEST(Advantage, BatchScaleDividesByTheSpreadOfTheBatch) {
  std::vector<GroupRewards> groups = {rewards_of({1, 0}), rewards_of({10, 0}), rewards_of({3, 3})};
  auto result = batch_advantages(groups, AdvantageScale::kBatch, 0.0);
  double mean = 17.0 / 6.0, squares = 0;
  for (double reward : {1.0, 0.0, 10.0, 0.0, 3.0, 3.0}) squares += (reward - mean) * (reward - mean);
  double std = std::sqrt(squares / 5.0);
  expect_near(result[0].advantage, {0.5 / std, -0.5 / std}, 1e-12);
  expect_near(result[1].advantage, {5 / std, -5 / std}, 1e-12);
  EXPECT_EQ(result[2].advantage, (std::vector<double>{0, 0}));
  EXPECT_TRUE(result[2].zero_variance);
}

TEST(Advantage, ScalesAgreeWithTheSlowTwinOnRandomGroups) {
  RandomStream random({.run_seed = 5, .purpose = RandomPurpose::kData});
  for (int round = 0; round < 500; ++round) {
    GroupRewards rewards(1 + random.below(12));
    for (auto& reward : rewards) {
      if (random.uniform() < 0.2) continue;
      reward = random.uniform() < 0.1 ? kNan : random.normal() * 10;
    }
    for (bool divide : {true, false}) {
      GroupAdvantages result = group_advantages(rewards, divide, 1e-4);
      expect_near(result.advantage, slow_twin(rewards, divide, 1e-4), 1e-9);
      double sum = 0;
      for (double advantage : result.advantage) sum += advantage;
      EXPECT_NEAR(sum, 0.0, 1e-9);
    }
  }
}

}  // namespace
}  // namespace stoker
