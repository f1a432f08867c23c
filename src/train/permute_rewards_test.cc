#include "train/permute_rewards.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stoker {
namespace {

RolloutBatch numbered_batch(int64_t step) {
  RolloutBatch batch{.step = step, .groups = {}};
  double reward = 0;
  for (uint64_t ordinal = 0; ordinal < 8; ++ordinal) {
    Group group{.task_ordinal = ordinal, .task_id = {}, .dispatch_version = 0, .episodes = {}};
    for (uint32_t sample = 0; sample < 4; ++sample) {
      EpisodeRecord record;
      record.id = {.task_ordinal = ordinal, .sample = sample};
      if (sample != 3) record.reward = reward++;
      group.episodes.push_back(record);
    }
    batch.groups.push_back(group);
  }
  return batch;
}

std::vector<double> rewards(const RolloutBatch& batch) {
  std::vector<double> all;
  for (const Group& group : batch.groups) {
    for (const EpisodeRecord& episode : group.episodes) {
      EXPECT_EQ(episode.reward.has_value(), episode.id.sample != 3);
      if (episode.reward) all.push_back(*episode.reward);
    }
  }
  return all;
}

TEST(PermuteRewards, KeepsTheRewardsAndMovesThemAcrossGroupsByStepAndSeed) {
  RolloutBatch batch = numbered_batch(3);
  std::vector<double> before = rewards(batch);
  std::vector<double> after = rewards(with_permuted_rewards(batch, 1));
  EXPECT_NE(before, after);
  EXPECT_EQ(after, rewards(with_permuted_rewards(batch, 1)));
  EXPECT_NE(after, rewards(with_permuted_rewards(batch, 2)));
  EXPECT_NE(after, rewards(with_permuted_rewards(numbered_batch(4), 1)));
  bool across_groups = false;
  for (size_t i = 0; i < after.size(); ++i) across_groups |= static_cast<size_t>(after[i]) / 3 != i / 3;
  EXPECT_TRUE(across_groups);
  std::sort(after.begin(), after.end());
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace stoker
