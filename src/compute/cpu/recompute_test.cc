#include "compute/recompute.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compute/cpu/test_support.h"

namespace stoker::cpu {
namespace {

struct Accumulated {
  Scores scores;
  std::vector<float> gradients;
};

// One micro-batch with shared prompts, all its outputs with coefficients.
Accumulated accumulate(const Weights& weights, const Batch& batch, int threads, ComputeType type,
                       Recompute form) {
  LearnerBench bench(weights, threads, {}, 0, type, form);
  Scores scores = bench.accumulate(batch, 0.3f);
  return {std::move(scores), bench.gradients()};
}

ModelConfig deep(ModelConfig config) {
  config.num_hidden_layers = 4;
  if (!config.sliding_layers.empty()) config.sliding_layers = {true, false, true, false};
  return config;
}

void expect_bits_of_what_is_kept(ComputeType type) {
  for (const ModelConfig& config : {deep(odd_config()), deep(gemma2_config()), deep(gemma3_config())}) {
    const Weights weights = random_weights(config, 3);
    const Batch batch = forest(config.vocab_size, 4);
    const Accumulated kept = accumulate(weights, batch, 1, type, Recompute::kNone);
    for (const Recompute form : {Recompute::kAttention, Recompute::kLayer}) {
      for (const int threads : {1, 2}) {
        const Accumulated again = accumulate(weights, batch, threads, type, form);
        EXPECT_EQ(first_difference(again.scores.log_probability, kept.scores.log_probability), -1);
        EXPECT_EQ(first_difference(again.scores.entropy, kept.scores.entropy), -1);
        EXPECT_EQ(first_difference(again.gradients, kept.gradients), -1)
            << config.model_type << ", " << to_string(form) << ", " << threads << " threads";
      }
    }
  }
}

TEST(Recompute, GradientsAreThoseOfWhatIsKept) { expect_bits_of_what_is_kept(ComputeType::kFloat32); }

TEST(Recompute, GradientsInBfloat16AreThoseOfWhatIsKept) {
  expect_bits_of_what_is_kept(ComputeType::kBfloat16);
}

// A model of one layer has nothing to compute again, and memory of another batch leaves nothing behind.
TEST(Recompute, MemoryIsUsedAgain) {
  for (const int layers : {1, 3}) {
    ModelConfig config = even_config();
    config.num_hidden_layers = layers;
    const Weights weights = random_weights(config, 5);
    const Batch large = forest(config.vocab_size, 6);
    Batch small;
    small.segments.push_back({random_tokens(7, 8, config.vocab_size), -1});
    predict_within_segments(small);
    LearnerBench kept(weights, 1), again(weights, 2, {}, 0, ComputeType::kFloat32, Recompute::kLayer);
    for (const Batch* batch : std::vector<const Batch*>{&large, &small, &large}) {
      kept.accumulate(*batch), again.accumulate(*batch);
      EXPECT_EQ(first_difference(again.score(*batch).log_probability, kept.score(*batch).log_probability),
                -1);
    }
    EXPECT_EQ(first_difference(again.gradients(), kept.gradients()), -1);
  }
}

TEST(Recompute, HasNames) {
  for (const Recompute form : kRecomputeForms) EXPECT_EQ(recompute_form(to_string(form)), form);
  EXPECT_THROW(recompute_form("auto"), Error);
}

}  // namespace
}  // namespace stoker::cpu
