#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/random.h"
#include "compute/cpu/cpu_learner.h"
#include "compute/cpu/decoder.h"
#include "compute/cpu/kernels.h"
#include "model/family.h"

namespace stoker::cpu {

// The tile shapes of the AVX-512 kernels compiled for AVX2 (wide_tiles_test_kernels.cc), so that their logic
// is tested on every machine.
namespace wide_tiles {
extern const Kernels kKernels;
}

// The kernels of every instruction set that this processor has, and those.
inline std::vector<const Kernels*> kernel_tables() {
  std::vector<const Kernels*> result = {&wide_tiles::kKernels};
  for (const InstructionSet set : kInstructionSets) {
    if (is_supported(set)) result.push_back(&kernels(set));
  }
  return result;
}

inline std::vector<float> random_floats(size_t count, uint64_t seed, float scale = 1.0f) {
  RandomStream stream({.run_seed = seed, .purpose = RandomPurpose::kData});
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(stream.normal()) * scale;
  return values;
}

inline std::vector<int32_t> random_tokens(size_t count, uint64_t seed, int32_t vocabulary) {
  RandomStream stream({.run_seed = seed, .purpose = RandomPurpose::kData, .sample = 1});
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(stream.below(vocabulary));
  return tokens;
}

// Two prompts with three and two answers, one of which has a continuation of its own; other rows, other
// temperatures, two candidates.
inline Batch forest(int32_t vocabulary, uint64_t seed) {
  Batch batch;
  const auto add = [&](size_t length, int32_t parent) {
    batch.segments.push_back({random_tokens(length, seed + batch.segments.size(), vocabulary), parent});
    return static_cast<int32_t>(batch.segments.size()) - 1;
  };
  const int32_t first = add(9, -1), second = add(17, -1);
  add(5, first), add(20, first);
  const int32_t long_answer = add(11, first);
  add(1, second), add(33, second);
  add(7, long_answer);
  batch.candidates = 2;
  for (size_t s = 0; s < batch.segments.size(); ++s) {
    for (size_t i = 0; i < batch.segments[s].tokens.size(); i += s == 3 ? 1 : 2) {
      batch.segment.push_back(static_cast<int32_t>(s));
      batch.offset.push_back(static_cast<int32_t>(i));
      batch.target.push_back(static_cast<int32_t>((i * 7 + s) % vocabulary));
      batch.target.push_back(static_cast<int32_t>((i * 5 + s + 1) % vocabulary));
      batch.temperature.push_back(s % 2 == 0 ? 1.0f : 0.7f);
    }
  }
  return batch;
}

// Compares by bits, but +0 and -0 are one number.
inline bool same_bits(float a, float b) {
  return a == b || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// The index of the first difference; -1 when there is none.
inline int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return static_cast<int64_t>(std::min(a.size(), b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

inline constexpr ComputeType kComputeTypes[] = {ComputeType::kFloat32, ComputeType::kBfloat16};

// Largest |a - b| over the largest |b|.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return difference / size;
}

// A small architecture; none of its sizes is a multiple of 16 unless asked for.
inline ModelConfig odd_config() {
  ModelConfig config;
  config.model_type = "qwen3";
  config.vocab_size = 37;
  config.hidden_size = 20;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.intermediate_size = 27;
  config.max_position_embeddings = 256;
  config.qk_norm = true;
  return config;
}

// The sizes of the demonstration's model with fewer layers.
inline ModelConfig even_config() {
  ModelConfig config = odd_config();
  config.vocab_size = 64;
  config.hidden_size = 64;
  config.num_attention_heads = 4;
  config.head_dim = 32;
  config.intermediate_size = 96;
  return config;
}

// Gemma 2 in odd sizes: both kinds of layers, a window that no run ends at, both soft-caps.
inline ModelConfig gemma2_config() {
  ModelConfig config = odd_config();
  apply_family(*find_family("gemma2"), config);
  config.tie_word_embeddings = true;
  config.query_pre_attn_scalar = 9;
  config.attn_logit_softcapping = 1.5f;
  config.final_logit_softcapping = 2;
  config.sliding_window = 21;
  config.sliding_layers = {true, false};
  return config;
}

// Gemma 3: two rotary bases, one of them scaled, and norms over the heads.
inline ModelConfig gemma3_config() {
  ModelConfig config = gemma2_config();
  apply_family(*find_family("gemma3_text"), config);
  config.attn_logit_softcapping = config.final_logit_softcapping = 0;
  config.num_key_value_heads = 1;
  config.rope_theta = 1e4f;
  config.rope_local_theta = 100;
  config.rope_scaling = {.type = RopeScalingType::kLinear, .factor = 4};
  config.sliding_window = 5;
  return config;
}

// Fresh weights whose norms and biases are not the trivial ones.
inline Weights random_weights(const ModelConfig& config, uint64_t seed) {
  Weights weights = initialize_weights(config, seed);
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    if (weights.manifest()[i].shape.size() > 1) continue;
    const std::vector<float> noise = random_floats(weights.tensor(i).size(), seed + i + 1, 0.2f);
    for (size_t j = 0; j < noise.size(); ++j) weights.tensor(i)[j] += noise[j];
  }
  return weights;
}

// Every token of every segment but the last predicts the next one; leaves out nothing.
inline void predict_within_segments(Batch& batch) {
  for (size_t s = 0; s < batch.segments.size(); ++s) {
    const std::vector<int32_t>& tokens = batch.segments[s].tokens;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      batch.segment.push_back(static_cast<int32_t>(s));
      batch.offset.push_back(static_cast<int32_t>(i));
      batch.target.push_back(tokens[i + 1]);
      batch.temperature.push_back(1.0f);
    }
  }
}

// A learner with its pool and executor, and its calls as plain functions.
class LearnerBench {
 public:
  explicit LearnerBench(const Weights& weights, int threads = 1, const OptimizerOptions& options = {},
                        int32_t vocabulary = 0, ComputeType type = ComputeType::kFloat32,
                        Recompute recompute = Recompute::kNone)
      : pool_(threads),
        learner_(weights, options, vocabulary == 0 ? weights.config().vocab_size : vocabulary, pool_, type,
                 recompute) {}

  CpuLearner& learner() { return learner_; }
  Scores score(const Batch& batch, WeightsPtr weights = nullptr) {
    return run(executor_, learner_.score(batch, std::move(weights)));
  }
  ForwardResult forward(const Batch& batch) { return run(executor_, learner_.forward(batch)); }
  void backward(std::unique_ptr<Tape> tape, const Coefficients& coefficients) {
    run(executor_, learner_.backward(std::move(tape), coefficients));
  }
  StepResult step(double rate) { return run(executor_, learner_.step(rate)); }
  WeightsPtr snapshot() { return run(executor_, learner_.snapshot()); }

  // Forward and backward with coefficients that are random but the same for a batch of the same size.
  Scores accumulate(const Batch& batch, float entropy = 0.0f) {
    ForwardResult result = forward(batch);
    Coefficients coefficients{random_floats(result.scores.log_probability.size(), 99), {}, {}};
    if (entropy != 0) coefficients.entropy = random_floats(result.scores.entropy.size(), 98, entropy);
    backward(std::move(result.tape), coefficients);
    return std::move(result.scores);
  }
  std::vector<float> gradients() const {
    const std::span<const float> values = learner_.gradients().values();
    return {values.begin(), values.end()};
  }

 private:
  RealExecutor executor_;
  ComputePool pool_;
  CpuLearner learner_;
};

// One sequence with its own cache in blocks, for DecoderForward.
class CachedSequence {
 public:
  CachedSequence(const ModelConfig& config, int32_t block_capacity, ComputeType type = ComputeType::kFloat32)
      : capacity_(block_capacity), block_floats_(kv_block_bytes(config, type, block_capacity) / 4) {}

  // Grows the cache for `count` more tokens; the chunk is valid until the next call.
  SequenceChunk append(std::span<const int32_t> tokens) {
    const int32_t position = length_;
    length_ += static_cast<int32_t>(tokens.size());
    while (static_cast<int32_t>(blocks_.size()) * capacity_ < length_) {
      blocks_.emplace_back(static_cast<size_t>(block_floats_), NAN);
    }
    runs_.clear();
    for (int32_t start = 0; start < length_; start += capacity_) {
      runs_.push_back({{blocks_[start / capacity_].data(), capacity_}, std::min(capacity_, length_ - start)});
    }
    return {tokens, position, runs_};
  }

 private:
  int32_t capacity_;
  int64_t block_floats_;
  int32_t length_ = 0;
  std::vector<std::vector<float>> blocks_;
  std::vector<KvRun> runs_;
};

}  // namespace stoker::cpu
