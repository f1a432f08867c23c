#include "compute/cpu/memory_use.h"

#include <gtest/gtest.h>

#include "compute/cpu/packed_weights.h"
#include "compute/cpu/test_support.h"

namespace stoker::cpu {
namespace {

// Large enough that what is not counted does not matter.
ModelConfig medium_config(bool tied, bool gemma) {
  ModelConfig config = gemma ? gemma2_config() : even_config();
  config.vocab_size = 3000;
  config.hidden_size = 96;
  config.head_dim = 32;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.intermediate_size = 208;
  config.tie_word_embeddings = tied;
  return config;
}

void expect_upper_estimate(double estimate, double held) {
  EXPECT_GE(estimate, 0.99 * held);
  EXPECT_LE(estimate, 1.4 * held);
}

TEST(MemoryUse, PackedWeightsTakeWhatIsSaid) {
  SerialParallel serial;
  for (const ComputeType type : kComputeTypes) {
    for (const bool tied : {true, false}) {
      const ModelConfig config = medium_config(tied, false);
      const Weights weights = initialize_weights(config, 1);
      const int64_t before = FloatBuffer::total_bytes();
      const auto packed = pack_weights(weights, type, serial);
      const int64_t forward = FloatBuffer::total_bytes();
      BackwardWeights backward;
      pack_backward_weights(weights, type, serial, backward);
      expect_upper_estimate(static_cast<double>(packed_weight_bytes(config, type)),
                            static_cast<double>(forward - before));
      expect_upper_estimate(static_cast<double>(backward_weight_bytes(config, type)),
                            static_cast<double>(FloatBuffer::total_bytes() - forward));
    }
  }
}

// `count` segments of `tokens` tokens, all predicted.
Batch equal_segments(uint64_t count, size_t tokens, int32_t vocabulary) {
  Batch batch;
  for (uint64_t s = 0; s < count; ++s) batch.segments.push_back({random_tokens(tokens, s, vocabulary), -1});
  predict_within_segments(batch);
  return batch;
}

// Bytes that one forward and backward pass leaves held beside packed weights. Buffers only grow while a
// learner lives, so this is also the most that they held together.
int64_t held_by_training(const Weights& weights, const Batch& batch, ComputeType type, Recompute recompute) {
  const ModelConfig& config = weights.config();
  LearnerBench bench(weights, 2, {}, 0, type, recompute);
  const int64_t packed = packed_weight_bytes(config, type) + backward_weight_bytes(config, type);
  const int64_t before = FloatBuffer::total_bytes();
  bench.accumulate(batch);
  return FloatBuffer::total_bytes() - before - packed;
}

TEST(MemoryUse, TrainingTakesWhatIsSaid) {
  const Batch batch = equal_segments(8, 40, 3000);
  for (const bool gemma : {true, false}) {
    ModelConfig config = medium_config(true, gemma);
    if (!gemma) config.num_hidden_layers = 5;
    const Weights weights = initialize_weights(config, 1);
    for (const ComputeType type : kComputeTypes) {
      for (const Recompute form : kRecomputeForms) {
        expect_upper_estimate(static_cast<double>(training_bytes(config, type, form, 3000, 320, 2)),
                              static_cast<double>(held_by_training(weights, batch, type, form)));
      }
    }
  }
}

// Each form holds less than the one before, and the last a small part of it all in a deep model.
TEST(MemoryUse, RecomputationSavesWhatItIsFor) {
  ModelConfig config = medium_config(true, false);
  config.vocab_size = 300;
  config.num_hidden_layers = 16;
  const Weights weights = initialize_weights(config, 1);
  const Batch batch = equal_segments(12, 40, 300);
  const auto held = [&](Recompute form) {
    return static_cast<double>(held_by_training(weights, batch, ComputeType::kFloat32, form));
  };
  const double none = held(Recompute::kNone), attention = held(Recompute::kAttention);
  EXPECT_LT(attention, 0.75 * none);
  EXPECT_LT(held(Recompute::kLayer), 0.5 * attention);
}

// Forward and backward: the logits of all predictions together would take 67 MB.
TEST(MemoryUse, LogitsOfAllPredictionsAreNeverHeld) {
  ModelConfig config = odd_config();
  config.vocab_size = 8192;
  config.num_hidden_layers = 1;
  const Weights weights = initialize_weights(config, 1);
  const auto held = [&](uint64_t segments) {
    return held_by_training(weights, equal_segments(segments, 250, 8192), ComputeType::kFloat32,
                            Recompute::kNone);
  };
  EXPECT_LT(held(8), int64_t{32} << 20);
  // Half of the predictions already fill what is held of logits at a time.
  EXPECT_LT(held(8), held(4) + (int64_t{8} << 20));
}

// One matrix of scores over this sequence would take 36 MB in one head; twice the tokens, twice the memory.
TEST(MemoryUse, AttentionHoldsNoMatrixOfScores) {
  ModelConfig config = odd_config();
  config.num_hidden_layers = 1;
  config.max_position_embeddings = 3000;
  const Weights weights = initialize_weights(config, 1);
  for (const Recompute form : {Recompute::kNone, Recompute::kLayer}) {
    const auto held = [&](size_t tokens) {
      return held_by_training(weights, equal_segments(1, tokens, 37), ComputeType::kFloat32, form);
    };
    const int64_t half = held(1500), whole = held(3000);
    EXPECT_LT(whole, int64_t{24} << 20);
    EXPECT_LT(whole, 2 * half + (int64_t{4} << 20));
  }
}

}  // namespace
}  // namespace stoker::cpu
