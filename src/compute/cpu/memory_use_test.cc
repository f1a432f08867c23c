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

TEST(MemoryUse, TrainingTakesWhatIsSaid) {
  for (const bool gemma : {true, false}) {
    for (const ComputeType type : kComputeTypes) {
      const ModelConfig config = medium_config(true, gemma);
      const Weights weights = initialize_weights(config, 1);
      LearnerBench bench(weights, 2, {}, 0, type);
      Batch batch;
      for (uint64_t s = 0; s < 8; ++s) batch.segments.push_back({random_tokens(40, s, 3000), -1});
      predict_within_segments(batch);
      const int64_t packed = packed_weight_bytes(config, type) + backward_weight_bytes(config, type);
      const int64_t before = FloatBuffer::total_bytes();
      bench.accumulate(batch);
      const int64_t held = FloatBuffer::total_bytes() - before - packed;
      expect_upper_estimate(static_cast<double>(training_bytes(config, type, 3000, 320, 2)),
                            static_cast<double>(held));
    }
  }
}

}  // namespace
}  // namespace stoker::cpu
