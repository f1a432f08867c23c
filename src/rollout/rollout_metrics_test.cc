#include "rollout/rollout_metrics.h"

#include <vector>

#include <gtest/gtest.h>

namespace stoker {
namespace {

// An episode whose sampled tokens are of these versions, one turn each.
EpisodeRecord episode(const std::vector<int64_t>& versions, std::optional<double> reward) {
  EpisodeRecord record;
  const int32_t prompt[] = {1, 2, 3};
  record.trajectory.append(SpanKind::kPrompt, 0, prompt);
  for (size_t turn = 0; turn < versions.size(); ++turn) {
    record.trajectory.begin_sampled(static_cast<int32_t>(turn));
    record.trajectory.append_sampled(4, -1.0f, versions[turn]);
    record.trajectory.close_sampled(StopReason::kStopToken);
  }
  record.reward = reward;
  if (reward) record.rewards["correct"] = *reward;
  record.success = reward == 1.0;
  return record;
}

TEST(RolloutMetrics, CountsWhatABatchHolds) {
  RolloutBatch batch{.step = 7};
  Group& group = batch.groups.emplace_back();
  group.episodes.push_back(episode({7, 7}, 1.0));
  group.episodes.push_back(episode({5, 6, 6}, 0.0));
  group.episodes.push_back(episode({7}, std::nullopt));
  group.episodes[0].tool_calls = 3;
  group.episodes[1].tool_calls = 1;
  group.episodes[1].tool_errors = 1;
  group.episodes[1].failure = Failure{FailureClass::kLimit, "turns", ""};
  group.episodes[2].failure = Failure{FailureClass::kEnvironment, "timeout", ""};
  group.episodes[2].success = true;  // of an episode that was not scored: it does not count

  MetricMap metrics = rollout_metrics(batch);
  EXPECT_EQ(metrics.at("reward"), 0.5);
  EXPECT_EQ(metrics.at("rewards/correct/mean"), 0.5);
  EXPECT_NEAR(metrics.at("rewards/correct/std"), 0.70710678, 1e-6);
  EXPECT_EQ(metrics.at("success"), 1.0 / 3);
  EXPECT_EQ(metrics.at("completions/mean_length"), 2.0);
  EXPECT_EQ(metrics.at("completions/min_length"), 1.0);
  EXPECT_EQ(metrics.at("response_length/max"), 3.0);
  EXPECT_EQ(metrics.at("completions/clipped_ratio"), 1.0 / 3);
  EXPECT_EQ(metrics.at("num_turns/max"), 3.0);
  EXPECT_EQ(metrics.at("tools/call_frequency"), 4.0 / 3);
  EXPECT_EQ(metrics.at("tools/failure_frequency"), 0.25);
  EXPECT_EQ(metrics.at("failure/limit.turns"), 1.0);
  EXPECT_EQ(metrics.at("failure/environment.timeout"), 1.0);
  EXPECT_EQ(metrics.at("failure/share"), 1.0 / 3);
  // Tokens of scored episodes: lags 0, 0, 2, 1, 1.
  EXPECT_EQ(metrics.at("staleness/lag/mean"), 0.8);
  EXPECT_EQ(metrics.at("staleness/lag/p50"), 1.0);
  EXPECT_EQ(metrics.at("staleness/lag/p95"), 2.0);
  EXPECT_EQ(metrics.at("staleness/lag/max"), 2.0);
  EXPECT_EQ(metrics.at("staleness/in_flight/mean"), 0.2);
  EXPECT_EQ(metrics.at("staleness/in_queue/mean"), 0.6);
}

TEST(RolloutMetrics, MET_09_WhatHasNoValueIsMissing) {
  EXPECT_TRUE(rollout_metrics({}).empty());
  RolloutBatch batch;
  batch.groups.emplace_back().episodes.push_back(episode({}, std::nullopt));
  const MetricMap metrics = rollout_metrics(batch);
  EXPECT_EQ(metrics.count("reward"), 0u);
  EXPECT_EQ(metrics.count("tools/failure_frequency"), 0u);
  EXPECT_EQ(metrics.count("staleness/lag/mean"), 0u);
  EXPECT_EQ(metrics.at("success"), 0.0);
  EXPECT_EQ(metrics.at("completions/mean_length"), 0.0);

  RolloutBatch single;
  single.groups.emplace_back().episodes.push_back(episode({0}, 42.0));
  EXPECT_EQ(rollout_metrics(single).at("reward"), 42.0);
  EXPECT_EQ(rollout_metrics(single).count("rewards/correct/std"), 0u);
}

TEST(RolloutMetrics, LagPercentilesAreNearestRank) {
  RolloutBatch batch{.step = 100};
  Group& group = batch.groups.emplace_back();
  for (int64_t version = 1; version <= 100; ++version) group.episodes.push_back(episode({version}, 0.0));
  const MetricMap metrics = rollout_metrics(batch);
  EXPECT_EQ(metrics.at("staleness/lag/p50"), 49.0);  // lags 0 to 99
  EXPECT_EQ(metrics.at("staleness/lag/p95"), 94.0);
  EXPECT_EQ(metrics.at("staleness/lag/p99"), 98.0);
}

}  // namespace
}  // namespace stoker
