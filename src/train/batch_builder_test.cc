#include "train/batch_builder.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "train/testing/episodes.h"

namespace stoker {
namespace {

using testing::make_episode;
using testing::make_group;
using testing::Piece;

constexpr SpanKind kPrompt = SpanKind::kPrompt;
constexpr SpanKind kSampled = SpanKind::kSampled;
constexpr SpanKind kObservation = SpanKind::kObservation;
constexpr SpanKind kInjected = SpanKind::kInjected;

// Context and target of each prediction, spelled out from the forest.
struct Spelled {
  std::vector<int32_t> context;
  int32_t target = 0;
  bool operator==(const Spelled&) const = default;
};

std::vector<Spelled> spell(const MicroBatch& micro_batch) {
  const Batch& batch = micro_batch.batch;
  std::vector<Spelled> result;
  for (size_t n = 0; n < batch.target.size(); ++n) {
    const auto& own = batch.segments.at(batch.segment[n]).tokens;
    std::vector<int32_t> context(own.begin(), own.begin() + batch.offset[n] + 1);
    for (int32_t parent = batch.segments[batch.segment[n]].parent; parent >= 0;
         parent = batch.segments[parent].parent) {
      const auto& tokens = batch.segments.at(parent).tokens;
      context.insert(context.begin(), tokens.begin(), tokens.end());
    }
    result.push_back({context, batch.target[n]});
  }
  return result;
}

// The slow plain twin: every sampled token of the rows in order, with all that stands before it.
std::vector<Spelled> expected_predictions(const RolloutBatch& rollout) {
  std::vector<Spelled> result;
  for (const Group& group : rollout.groups) {
    for (const EpisodeRecord& episode : group.episodes) {
      auto tokens = episode.trajectory.tokens();
      for (int32_t i = 0; i < episode.trajectory.size(); ++i) {
        if (episode.trajectory.trained(i))
          result.push_back({{tokens.begin(), tokens.begin() + i}, tokens[i]});
      }
    }
  }
  return result;
}

std::vector<Spelled> spell(const TrainingBatch& training) {
  std::vector<Spelled> result;
  for (const MicroBatch& micro_batch : training.micro_batches) {
    for (Spelled& prediction : spell(micro_batch)) result.push_back(std::move(prediction));
  }
  return result;
}

RolloutBatch random_rollout(uint64_t seed) {
  RandomStream random({.run_seed = seed, .purpose = RandomPurpose::kData});
  auto tokens = [&](int minimum) {
    std::vector<int32_t> result(minimum + random.below(6));
    for (int32_t& token : result) token = static_cast<int32_t>(random.below(9));
    return result;
  };
  RolloutBatch rollout;
  for (uint64_t g = 0; g < 1 + random.below(5); ++g) {
    std::vector<int32_t> prompt = tokens(1);
    std::vector<EpisodeRecord> episodes;
    for (uint64_t s = 0; s < 2 + random.below(4); ++s) {
      std::vector<Piece> pieces = {{kPrompt, random.uniform() < 0.8 ? prompt : tokens(1)}};
      for (uint64_t turn = 0; turn < 1 + random.below(3); ++turn) {
        pieces.push_back({kSampled, tokens(1)});
        if (random.uniform() < 0.7) pieces.push_back({kObservation, tokens(1)});
        if (random.uniform() < 0.5) pieces.push_back({kInjected, tokens(1)});
      }
      episodes.push_back(make_episode(pieces, static_cast<double>(s)));
    }
    rollout.groups.push_back(make_group(g, std::move(episodes)));
  }
  return rollout;
}

TEST(BatchBuilder, SharesThePromptOfAGroup) {
  RolloutBatch rollout;
  rollout.groups.push_back(
      make_group(0, {make_episode({{kPrompt, {7, 8, 9}}, {kSampled, {1, 2}}}, 1.0),
                     make_episode({{kPrompt, {7, 8, 9}}, {kSampled, {3}}, {kObservation, {4}}}, 0.0),
                     make_episode({{kPrompt, {7, 8}}, {kSampled, {5, 6}}}, 0.0)}));
  TrainingBatch training = build_training_batch(rollout, {});
  ASSERT_EQ(training.micro_batches.size(), 1u);
  const Batch& batch = training.micro_batches[0].batch;
  ASSERT_EQ(batch.segments.size(), 4u);
  EXPECT_EQ(batch.segments[0].tokens, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(batch.segments[1].tokens, std::vector<int32_t>{1});  // 2 is only predicted
  EXPECT_EQ(batch.segments[1].parent, 0);
  EXPECT_EQ(batch.segments[2].tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(batch.segments[3].parent, 2);
  EXPECT_EQ(batch.segment, (std::vector<int32_t>{0, 1, 0, 2, 3}));
  EXPECT_EQ(batch.offset, (std::vector<int32_t>{2, 0, 2, 1, 0}));
  EXPECT_EQ(batch.target, (std::vector<int32_t>{1, 2, 3, 5, 6}));
  EXPECT_EQ(training.counts.forward_tokens, 7);
  EXPECT_EQ(training.counts.trained_tokens, 5);
  EXPECT_EQ(training.counts.denominator_tokens, 5);
}

TEST(BatchBuilder, EqualPromptsOfDifferentGroupsStayApart) {
  RolloutBatch rollout;
  for (uint64_t g = 0; g < 2; ++g) {
    rollout.groups.push_back(make_group(g, {make_episode({{kPrompt, {7}}, {kSampled, {1}}}, 1.0),
                                            make_episode({{kPrompt, {7}}, {kSampled, {2}}}, 0.0)}));
  }
  TrainingBatch training = build_training_batch(rollout, {});
  EXPECT_EQ(training.micro_batches.at(0).batch.segments.size(), 2u);
}

TEST(BatchBuilder, PredictsEverySampledTokenFromItsWholeContext) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RolloutBatch rollout = random_rollout(seed);
    for (int64_t budget : {1, 15, 40, 100000}) {
      TrainingBatch training = build_training_batch(rollout, {.micro_batch_tokens = budget});
      ASSERT_EQ(spell(training), expected_predictions(rollout)) << "seed " << seed << ", budget " << budget;
    }
  }
}

TEST(BatchBuilder, MSK_01_OnlySampledTokensAreTrainedInEveryMicroBatch) {
  auto rollout_with_tool_text = [](int32_t text) {
    RolloutBatch rollout;
    for (double reward : {1.0, 0.0}) {
      EpisodeRecord episode = make_episode(
          {{kPrompt, {9}}, {kSampled, {1, 1}}, {kObservation, {text, text}}, {kSampled, {2, 2}}}, reward);
      if (rollout.groups.empty()) rollout.groups.push_back(make_group(0, {}));
      rollout.groups[0].episodes.push_back(episode);
    }
    return rollout;
  };
  for (int64_t budget : {1, 1000}) {
    for (int32_t text : {5, 6}) {
      TrainingBatch training =
          build_training_batch(rollout_with_tool_text(text), {.micro_batch_tokens = budget});
      std::vector<int32_t> targets;
      double weights = 0;
      for (const MicroBatch& micro_batch : training.micro_batches) {
        targets.insert(targets.end(), micro_batch.batch.target.begin(), micro_batch.batch.target.end());
        for (double weight : micro_batch.weight) weights += weight;
      }
      EXPECT_EQ(targets, (std::vector<int32_t>{1, 1, 2, 2, 1, 1, 2, 2}));
      // A loss of 1 at each of the 8 trained tokens has the mean 1: the tool's tokens are not in the
      // denominator.
      EXPECT_NEAR(weights, 1.0, 1e-15);
    }
  }
}

TEST(BatchBuilder, MSK_03_MasksComeFromSpansNeverFromIds) {
  RolloutBatch rollout;
  rollout.groups.push_back(
      make_group(0, {make_episode({{kPrompt, {11, 2, 13}}, {kSampled, {21, 22, 2}}}, 1.0),
                     make_episode({{kPrompt, {11, 2, 13}}, {kSampled, {21, 22, 23, 24, 25}}}, 0.0)}));
  TrainingBatch training = build_training_batch(rollout, {});
  const Batch& batch = training.micro_batches.at(0).batch;
  EXPECT_EQ(batch.segments[0].tokens, (std::vector<int32_t>{11, 2, 13}));
  EXPECT_EQ(batch.target, (std::vector<int32_t>{21, 22, 2, 21, 22, 23, 24, 25}));
}

TEST(BatchBuilder, MSK_05_FirstSampledTokenIsPredictedByTheLastPromptToken) {
  RolloutBatch rollout;
  rollout.groups.push_back(make_group(0, {make_episode({{kPrompt, {1, 2, 3, 4}}, {kSampled, {5, 6, 7}}}, 1.0),
                                          make_episode({{kPrompt, {1, 2, 3, 4}}, {kSampled, {8}}}, 0.0)}));
  std::vector<Spelled> predictions = spell(build_training_batch(rollout, {}));
  ASSERT_EQ(predictions.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(predictions[i].context.size(), 4 + i);
  EXPECT_EQ(predictions[3], (Spelled{{1, 2, 3, 4}, 8}));
}

TEST(BatchBuilder, MSK_07_TruncatedRowsLeaveLossAndDenominatorAtOnce) {
  RolloutBatch rollout;
  rollout.groups.push_back(make_group(
      0, {make_episode({{kPrompt, {1}}, {kSampled, {2, 3}}, {kObservation, {9}}, {kSampled, {4}}}, 1.0),
          make_episode({{kPrompt, {1}}, {kSampled, {5, 6}, StopReason::kLength}}, 0.0)}));
  TrainingBatch kept = build_training_batch(rollout, {});
  EXPECT_EQ(kept.counts.denominator_tokens, 5);
  TrainingBatch masked = build_training_batch(rollout, {.mask_truncated = true});
  EXPECT_EQ(masked.counts.denominator_tokens, 3);
  EXPECT_EQ(masked.counts.truncated_rows, 1);
  EXPECT_EQ(masked.micro_batches.at(0).batch.target, (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(masked.micro_batches[0].weight, std::vector<double>(3, 1.0 / 3.0));
  // Its reward still counts in its group.
  EXPECT_GT(masked.micro_batches[0].advantage[0], 0.7);

  rollout.groups[0].episodes[0].failure = Failure{FailureClass::kLimit, "turns", ""};
  EXPECT_EQ(build_training_batch(rollout, {.mask_truncated = true}).counts.truncated_rows, 2);
  EXPECT_EQ(build_training_batch(rollout, {}).counts.trained_rows, 2);
}

TEST(BatchBuilder, EachPredictionCarriesWhatTheObjectiveNeeds) {
  RolloutBatch rollout;
  rollout.groups.push_back(make_group(3, {make_episode({{kPrompt, {1, 1}}, {kSampled, {2, 3}}}, 0.75, 0, 4),
                                          make_episode({{kPrompt, {1, 1}}, {kSampled, {4}}}, 0.25, 0, 6)}));
  TrainingBatch training =
      build_training_batch(rollout, {.advantage_scale = AdvantageScale::kNone, .temperature = 0.8f});
  const MicroBatch& micro_batch = training.micro_batches.at(0);
  EXPECT_EQ(micro_batch.behaviour_log_probability,
            (std::vector<float>{-0.5f - 0.01f * 2, -0.5f - 0.01f * 3, -0.5f - 0.01f * 2}));
  EXPECT_EQ(micro_batch.advantage, (std::vector<double>{0.25, 0.25, -0.25}));
  EXPECT_EQ(micro_batch.weight, std::vector<double>(3, 1.0 / 3.0));
  EXPECT_EQ(micro_batch.version, (std::vector<int64_t>{4, 4, 6}));
  EXPECT_EQ(micro_batch.mixed, (std::vector<uint8_t>{0, 0, 0}));
  EXPECT_EQ(micro_batch.batch.temperature, std::vector<float>(3, 0.8f));
  EXPECT_EQ(micro_batch.rows, 2);
  EXPECT_NEAR(training.counts.reward_sum, 1.0, 1e-15);
}

RolloutBatch with_a_group_without_variance() {
  RolloutBatch rollout;
  rollout.groups.push_back(make_group(0, {make_episode({{kPrompt, {1}}, {kSampled, {2, 3}}}, 1.0),
                                          make_episode({{kPrompt, {1}}, {kSampled, {4}}}, 0.0)}));
  rollout.groups.push_back(make_group(1, {make_episode({{kPrompt, {5}}, {kSampled, {6, 6, 6}}}, 0.1),
                                          make_episode({{kPrompt, {5}}, {kSampled, {7, 7}}}, 0.1)}));
  return rollout;
}

TEST(BatchBuilder, GroupsWithoutVariance) {
  RolloutBatch rollout = with_a_group_without_variance();
  TrainingBatch skip = build_training_batch(rollout, {.zero_variance = ZeroVariance::kSkip});
  EXPECT_EQ(skip.counts.trained_tokens, 3);
  EXPECT_EQ(skip.counts.denominator_tokens, 8);
  EXPECT_EQ(skip.micro_batches.at(0).weight[0], 1.0 / 8.0);
  EXPECT_EQ(skip.counts.zero_variance_groups, 1);
  EXPECT_EQ(skip.counts.zero_variance_rows, 2);

  TrainingBatch train = build_training_batch(rollout, {.zero_variance = ZeroVariance::kTrain});
  EXPECT_EQ(train.counts.trained_tokens, 8);
  EXPECT_EQ(train.micro_batches.at(0).weight[0], 1.0 / 8.0);
  EXPECT_EQ(train.micro_batches[0].advantage.back(), 0.0);
  EXPECT_EQ(train.counts.zero_variance_groups, 1);

  TrainingBatch drop = build_training_batch(rollout, {.zero_variance = ZeroVariance::kDrop});
  EXPECT_EQ(drop.counts.trained_tokens, 3);
  EXPECT_EQ(drop.counts.denominator_tokens, 3);
  EXPECT_EQ(drop.micro_batches.at(0).weight[0], 1.0 / 3.0);
}

TEST(BatchBuilder, SequenceMeanGivesEachEpisodeTheSameWeight) {
  TrainingBatch training =
      build_training_batch(with_a_group_without_variance(), {.aggregation = LossAggregation::kSequenceMean});
  EXPECT_EQ(training.micro_batches.at(0).weight, (std::vector<double>{1.0 / 8, 1.0 / 8, 1.0 / 4}));
}

TEST(BatchBuilder, FailedAndUnscoredRowsCarryNoLossAndAreCounted) {
  std::vector<Piece> pieces = {{kPrompt, {1}}, {kSampled, {2, 3}}};
  RolloutBatch rollout;
  rollout.groups.push_back(
      make_group(0, {make_episode(pieces, 1.0), make_episode(pieces, 0.0), make_episode(pieces, std::nullopt),
                     make_episode(pieces, std::nan("")), make_episode(pieces, 5.0), make_episode(pieces, 5.0),
                     make_episode(pieces, std::nullopt), make_episode({{kPrompt, {1}}}, 0.5)}));
  auto& episodes = rollout.groups[0].episodes;
  episodes[4].failure = Failure{FailureClass::kEnvironment, "timeout", ""};
  episodes[5].failure = Failure{FailureClass::kInfrastructure, "lost", ""};
  episodes[6].failure = Failure{FailureClass::kReward, "exception", ""};
  TrainingBatch training = build_training_batch(rollout, {.advantage_scale = AdvantageScale::kNone});
  const BatchCounts& counts = training.counts;
  EXPECT_EQ(counts.rows, 8);
  EXPECT_EQ(counts.trained_rows, 2);
  EXPECT_EQ(counts.unscored_rows, 2);
  EXPECT_EQ(counts.empty_rows, 1);
  EXPECT_EQ(counts.failed_rows,
            (std::map<std::string, int64_t>{
                {"environment.timeout", 1}, {"infrastructure.lost", 1}, {"reward.exception", 1}}));
  EXPECT_EQ(counts.denominator_tokens, 4);
  EXPECT_EQ(counts.scored_rows, 3);
  // Neither the 5.0 of failed rows nor the absent rewards move the mean of {1, 0, 0.5}.
  EXPECT_EQ(training.micro_batches.at(0).advantage, (std::vector<double>{0.5, 0.5, -0.5, -0.5}));
}

TEST(BatchBuilder, MET_11_TasksOfOneNameInDifferentGroupsStayApart) {
  const auto episode = [](double reward, uint32_t sample) {
    return make_episode({{kPrompt, {1, 2}}, {kSampled, {3, 4}}}, reward, sample);
  };
  RolloutBatch rollout;
  rollout.groups.push_back(make_group(0, {episode(1, 0), episode(1, 1)}));
  rollout.groups.push_back(make_group(1, {episode(0, 0), episode(0, 1)}));
  for (Group& group : rollout.groups) group.task_id = "example 0";
  const TrainingBatch batch = build_training_batch(rollout, {});
  EXPECT_EQ(batch.counts.groups, 2);
  EXPECT_EQ(batch.counts.zero_variance_groups, 2) << "each is all alike; together they would not be";
}

TEST(BatchBuilder, TokensOverTheCapOfStalenessCarryNoLoss) {
  // Versions 0, 1, 2, ... along each row's sampled tokens; training is at 4 and the cap at 2.
  const auto aged = [](int32_t sampled, double reward) {
    Trajectory trajectory;
    trajectory.append(kPrompt, 0, std::vector<int32_t>{7, 8});
    trajectory.begin_sampled(0);
    for (int32_t i = 0; i < sampled; ++i) trajectory.append_sampled(i, -0.5f, i);
    trajectory.close_sampled(StopReason::kStopToken);
    EpisodeRecord episode;
    episode.trajectory = std::move(trajectory);
    episode.reward = reward;
    return episode;
  };
  RolloutBatch rollout{.step = 4, .oldest_trained_version = 2};
  rollout.groups.push_back(make_group(0, {aged(4, 1.0), aged(2, 0.0), aged(3, 0.0)}));
  TrainingBatch training = build_training_batch(rollout, {});
  EXPECT_EQ(spell(training),
            (std::vector<Spelled>{{{7, 8, 0, 1}, 2}, {{7, 8, 0, 1, 2}, 3}, {{7, 8, 0, 1}, 2}}));
  EXPECT_EQ(training.micro_batches[0].version, (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(training.counts.stale_tokens, 6);
  EXPECT_EQ(training.counts.stale_rows, 1);
  EXPECT_EQ(training.counts.trained_rows, 2);
  EXPECT_EQ(training.counts.denominator_tokens, 3);
  EXPECT_NEAR(training.micro_batches[0].weight[0], 1.0 / 3, 1e-12);
}

TEST(BatchBuilder, NothingToTrain) {
  RolloutBatch rollout;
  EXPECT_TRUE(build_training_batch(rollout, {}).micro_batches.empty());
  rollout.groups.push_back(make_group(0, {make_episode({{kPrompt, {1}}, {kSampled, {2}}}, 1.0)}));
  TrainingBatch training = build_training_batch(rollout, {});
  EXPECT_TRUE(training.micro_batches.empty());
  EXPECT_EQ(training.counts.zero_variance_groups, 1);
}

TEST(BatchBuilder, MicroBatchesNeverCutARowAndKeepTheOrder) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RolloutBatch rollout = random_rollout(seed);
    TrainingBatch whole = build_training_batch(rollout, {.micro_batch_tokens = 1 << 20});
    for (int64_t budget : {1, 12, 30}) {
      TrainingBatch parts = build_training_batch(rollout, {.micro_batch_tokens = budget});
      std::vector<double> weights;
      int64_t forward = 0;
      for (const MicroBatch& micro_batch : parts.micro_batches) {
        int64_t tokens = 0;
        for (const Segment& segment : micro_batch.batch.segments)
          tokens += static_cast<int64_t>(segment.tokens.size());
        EXPECT_TRUE(tokens <= budget || micro_batch.rows == 1) << tokens;
        EXPECT_GE(micro_batch.rows, 1);
        forward += tokens;
        weights.insert(weights.end(), micro_batch.weight.begin(), micro_batch.weight.end());
      }
      EXPECT_EQ(forward, parts.counts.forward_tokens);
      EXPECT_EQ(weights, whole.micro_batches.at(0).weight);
      EXPECT_EQ(parts.counts.denominator_tokens, whole.counts.denominator_tokens);
    }
  }
}

TEST(BatchBuilder, CFG_03_NoRowIsLostWhenSizesDoNotDivide) {
  RolloutBatch rollout;
  for (uint64_t g = 0; g < 10; ++g) {
    std::vector<EpisodeRecord> episodes;
    for (int s = 0; s < 4; ++s) episodes.push_back(make_episode({{kPrompt, {1}}, {kSampled, {s, 2}}}, s % 2));
    rollout.groups.push_back(make_group(g, std::move(episodes)));
  }
  TrainingBatch training = build_training_batch(rollout, {.micro_batch_tokens = 7});
  int32_t rows = 0;
  for (const MicroBatch& micro_batch : training.micro_batches) rows += micro_batch.rows;
  EXPECT_EQ(rows, 40);
  EXPECT_EQ(training.counts.denominator_tokens, 80);
}

TEST(BatchBuilder, BrokenPromisesAreNamed) {
  RolloutBatch rollout;
  rollout.groups.push_back(make_group(
      7, {make_episode({{kSampled, {2}}}, 1.0), make_episode({{kPrompt, {1}}, {kSampled, {2}}}, 0.0)}));
  try {
    build_training_batch(rollout, {});
    FAIL() << "a row that begins with a sampled token was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("7.0"), std::string::npos) << error.what();
  }
  EXPECT_THROW(build_training_batch({}, {.temperature = 0.0f}), Error);
}

}  // namespace
}  // namespace stoker
