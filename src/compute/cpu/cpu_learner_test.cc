#include "compute/cpu/cpu_learner.h"

#include <gtest/gtest.h>

#include "compute/cpu/instruction_set.h"
#include "compute/cpu/reference.h"
#include "compute/cpu/test_support.h"

namespace stoker::cpu {
namespace {

std::vector<ModelConfig> configs() {
  ModelConfig odd = odd_config();
  ModelConfig even = even_config();
  ModelConfig biased = odd_config();
  biased.model_type = "qwen2";
  biased.qk_norm = false;
  biased.attention_bias = true;
  biased.tie_word_embeddings = true;
  return {odd, even, biased, gemma2_config(), gemma3_config()};
}

// Tokens of a segment behind those of its ancestors.
std::vector<int32_t> full_sequence(const Batch& batch, int32_t segment) {
  std::vector<int32_t> tokens;
  if (segment < 0) return tokens;
  tokens = full_sequence(batch, batch.segments[segment].parent);
  tokens.insert(tokens.end(), batch.segments[segment].tokens.begin(), batch.segments[segment].tokens.end());
  return tokens;
}

// The sum of coefficients times numbers, by the plain twin in double.
double reference_loss(const ModelConfig& config, std::span<const double> values, const Batch& batch,
                      const Coefficients& coefficients) {
  double loss = 0;
  for (size_t s = 0; s < batch.segments.size(); ++s) {
    const std::vector<int32_t> tokens = full_sequence(batch, static_cast<int32_t>(s));
    const std::vector<double> logits = reference::sequence_logits<double>(config, values, tokens);
    for (size_t n = 0; n < batch.segment.size(); ++n) {
      if (batch.segment[n] != static_cast<int32_t>(s)) continue;
      const size_t row = tokens.size() - batch.segments[s].tokens.size() + batch.offset[n];
      const std::span<const double> own =
          std::span(logits).subspan(row * config.vocab_size, config.vocab_size);
      for (int k = 0; k < batch.candidates; ++k) {
        const size_t index = n * batch.candidates + k;
        loss += coefficients.log_probability[index] *
                reference::log_probability<double>(own, batch.temperature[n], batch.target[index]);
      }
      loss += coefficients.entropy[n] * reference::entropy<double>(own, batch.temperature[n]);
    }
  }
  return loss;
}

void expect_bits_of_the_plain_twin(ComputeType type) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 3);
    const Batch batch = forest(config.vocab_size, 4);
    const Scores scores = LearnerBench(weights, 1, {}, 0, type).score(batch);
    std::vector<float> logits;  // of the segment at hand
    for (size_t n = 0; n < batch.segment.size(); ++n) {
      const int32_t s = batch.segment[n];
      const std::vector<int32_t> tokens = full_sequence(batch, s);
      const size_t row = tokens.size() - batch.segments[s].tokens.size() + batch.offset[n];
      if (n == 0 || batch.segment[n - 1] != s) {
        logits = reference::sequence_logits<float>(config, weights.values(), tokens, type);
      }
      const std::span<const float> own =
          std::span(logits).subspan(row * config.vocab_size, config.vocab_size);
      EXPECT_EQ(scores.log_probability[2 * n],
                reference::log_probability<float>(own, batch.temperature[n], batch.target[2 * n]));
      EXPECT_EQ(scores.entropy[n], reference::entropy<float>(own, batch.temperature[n]));
      EXPECT_EQ(scores.log_probability[2 * n + 1],
                log_probability(own, batch.temperature[n], batch.target[2 * n + 1]));
    }
  }
}

TEST(CpuLearner, ScoresHaveTheBitsOfThePlainTwin) { expect_bits_of_the_plain_twin(ComputeType::kFloat32); }

TEST(CpuLearner, ScoresInBfloat16HaveTheBitsOfThePlainTwin) {
  expect_bits_of_the_plain_twin(ComputeType::kBfloat16);
}

// The two differ in the rounding of keys and values alone when the weights are already rounded; master
// weights keep what an update adds below the last place of bfloat16.
TEST(CpuLearner, GradientsInBfloat16AreThoseOfRoundedWeights) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 3);
    Weights rounded(config);
    std::ranges::copy(reference::rounded<float>(weights.values(), ComputeType::kBfloat16),
                      rounded.values().begin());
    const Batch batch = forest(config.vocab_size, 4);
    LearnerBench brain(weights, 2, {}, 0, ComputeType::kBfloat16), plain(rounded, 2);
    brain.accumulate(batch, 0.3f), plain.accumulate(batch, 0.3f);
    const std::vector<float> own = brain.gradients(), expected = plain.gradients();
    double difference = 0, size = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      difference += (static_cast<double>(own[i]) - expected[i]) * (own[i] - expected[i]);
      size += static_cast<double>(expected[i]) * expected[i];
    }
    EXPECT_LT(std::sqrt(difference / size), 6e-2) << config.model_type;
    EXPECT_GT(difference, 0);
    brain.step(1e-6);
    EXPECT_FALSE(std::ranges::equal(brain.snapshot()->values(), weights.values()));
  }
}

class CpuLearnerGradients : public testing::TestWithParam<int> {};

// One test a configuration: the twin in double is slow.
TEST_P(CpuLearnerGradients, MatchFiniteDifferences) {
  std::vector<ModelConfig> small = configs();
  small[1].vocab_size = 20;
  small[1].hidden_size = 16;
  small[1].num_hidden_layers = 1;
  small[1].num_attention_heads = 2;
  small[1].num_key_value_heads = 1;
  small[1].head_dim = 16;
  small[1].intermediate_size = 32;
  const ModelConfig& config = small[GetParam()];
  const Weights weights = random_weights(config, 13);
  const Batch batch = forest(config.vocab_size, 14);
  LearnerBench bench(weights);
  ForwardResult result = bench.forward(batch);
  const Coefficients coefficients{random_floats(result.scores.log_probability.size(), 1),
                                  random_floats(result.scores.entropy.size(), 2),
                                  {}};
  bench.backward(std::move(result.tape), coefficients);
  std::vector<double> values(weights.values().begin(), weights.values().end());
  size_t begin = 0;
  for (const TensorInfo& info : weights.manifest()) {
    const size_t count = static_cast<size_t>(info.element_count());
    const std::span<const float> gradient = bench.learner().gradients().values().subspan(begin, count);
    double size = 0;
    for (const float g : gradient) size = std::max(size, std::abs(static_cast<double>(g)));
    // A directional derivative over the whole tensor, and a single element.
    for (int probe = 0; probe < 2; ++probe) {
      std::vector<float> direction(count, 0.0f);
      if (probe == 0)
        direction = random_floats(count, 77);
      else
        direction[(probe * 7919 + 13) % count] = 1.0f;
      const double h = 1e-5;
      double analytic = 0, scale = 0;
      std::vector<double> moved[2] = {values, values};
      for (size_t i = 0; i < count; ++i) {
        analytic += static_cast<double>(gradient[i]) * direction[i];
        scale += std::abs(static_cast<double>(gradient[i]) * direction[i]);
        moved[0][begin + i] += h * direction[i];
        moved[1][begin + i] -= h * direction[i];
      }
      const double numeric = (reference_loss(config, moved[0], batch, coefficients) -
                              reference_loss(config, moved[1], batch, coefficients)) /
                             (2 * h);
      EXPECT_NEAR(analytic, numeric, 2e-5 * (scale + size)) << info.name << " probe " << probe;
    }
    begin += count;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuLearnerGradients, testing::Range(0, 5));

void expect_bits_on_any_number_of_threads(ComputeType type) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 21);
    const Batch batch = forest(config.vocab_size, 22);
    LearnerBench one(weights, 1, {}, 0, type);
    const Scores expected = one.accumulate(batch, 0.3f);
    const std::vector<float> gradients = one.gradients();
    const double norm = one.step(0.01).gradient_norm;
    for (const int threads : {2, 3}) {
      LearnerBench many(weights, threads, {}, 0, type);
      const Scores scores = many.accumulate(batch, 0.3f);
      EXPECT_EQ(first_difference(scores.log_probability, expected.log_probability), -1);
      EXPECT_EQ(first_difference(scores.entropy, expected.entropy), -1);
      EXPECT_EQ(first_difference(many.gradients(), gradients), -1) << threads << " threads";
      EXPECT_EQ(many.step(0.01).gradient_norm, norm);
      EXPECT_EQ(many.snapshot()->digest(), one.snapshot()->digest());
    }
  }
}

TEST(CpuLearner, BitsDoNotDependOnThreads) { expect_bits_on_any_number_of_threads(ComputeType::kFloat32); }

TEST(CpuLearner, BitsInBfloat16DoNotDependOnThreads) {
  expect_bits_on_any_number_of_threads(ComputeType::kBfloat16);
}

TEST(CpuLearner, BitsDoNotDependOnTheInstructionSet) {
  if (!is_supported(InstructionSet::kAvx512)) {
    GTEST_SKIP() << "This processor has no AVX-512; Kernels tests cover its tile shapes.";
  }
  const InstructionSet chosen = instruction_set();
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 23);
    const Batch batch = forest(config.vocab_size, 24);
    for (const ComputeType type : kComputeTypes) {
      std::vector<Scores> scores;
      std::vector<uint64_t> digests;
      for (const InstructionSet set : kInstructionSets) {
        if (!is_supported(set)) continue;
        set_instruction_set(set);
        LearnerBench bench(weights, 1, {}, 0, type);
        scores.push_back(bench.accumulate(batch, 0.3f));
        bench.step(0.01);
        digests.push_back(bench.snapshot()->digest());
        EXPECT_EQ(first_difference(scores.back().log_probability, scores[0].log_probability), -1)
            << to_string(set);
        EXPECT_EQ(digests.back(), digests[0]) << to_string(set);
      }
    }
  }
  set_instruction_set(chosen);
}

// The same forest without sharing: each segment that is nobody's parent with all its context as one segment,
// and the predictions of inner segments asked of the first of their descendants.
Batch unshared(const Batch& shared) {
  Batch batch;
  batch.candidates = shared.candidates;
  batch.target = shared.target;
  batch.temperature = shared.temperature;
  std::vector<int32_t> leaf(shared.segments.size(), -1);
  for (size_t s = 0; s < shared.segments.size(); ++s) {
    bool parent = false;
    for (const Segment& other : shared.segments) parent = parent || other.parent == static_cast<int32_t>(s);
    if (parent) continue;
    for (int32_t a = static_cast<int32_t>(s); a >= 0; a = shared.segments[a].parent) {
      if (leaf[a] < 0) leaf[a] = static_cast<int32_t>(batch.segments.size());
    }
    batch.segments.push_back({full_sequence(shared, static_cast<int32_t>(s)), -1});
  }
  for (size_t n = 0; n < shared.segment.size(); ++n) {
    const int32_t s = shared.segment[n];
    batch.segment.push_back(leaf[s]);
    batch.offset.push_back(static_cast<int32_t>(full_sequence(shared, shared.segments[s].parent).size()) +
                           shared.offset[n]);
  }
  return batch;
}

TEST(CpuLearner, SharedPromptsChangeNothing) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 31);
    const Batch shared = forest(config.vocab_size, 32);
    for (const ComputeType type : kComputeTypes) {
      LearnerBench with(weights, 1, {}, 0, type), without(weights, 1, {}, 0, type);
      const Scores a = with.accumulate(shared, 0.3f), b = without.accumulate(unshared(shared), 0.3f);
      EXPECT_EQ(first_difference(a.log_probability, b.log_probability), -1);
      EXPECT_EQ(first_difference(a.entropy, b.entropy), -1);
      EXPECT_LT(relative_error(with.gradients(), without.gradients()), 1e-6);
    }
  }
}

TEST(CpuLearner, A5_LaterTokensAndOtherSegmentsDoNotReachEarlierLogProbabilities) {
  const ModelConfig config = even_config();
  const Weights weights = random_weights(config, 41);
  LearnerBench bench(weights);
  Batch batch = forest(config.vocab_size, 42);
  const Scores before = bench.score(batch);
  constexpr int32_t kChanged = 3, kFrom = 9;
  for (size_t i = kFrom; i < batch.segments[kChanged].tokens.size(); ++i) {
    batch.segments[kChanged].tokens[i] = (batch.segments[kChanged].tokens[i] + 1) % config.vocab_size;
  }
  const Scores after = bench.score(batch);
  int changed = 0;
  for (size_t n = 0; n < batch.segment.size(); ++n) {
    if (batch.segment[n] == kChanged && batch.offset[n] >= kFrom) {
      changed += before.entropy[n] != after.entropy[n];
      continue;
    }
    EXPECT_EQ(before.log_probability[2 * n], after.log_probability[2 * n]) << n;
    EXPECT_EQ(before.entropy[n], after.entropy[n]) << n;
  }
  EXPECT_GT(changed, 8);
}

void expect_bits_of_the_sampler(ComputeType type) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 51);
    Batch batch;
    batch.segments.push_back({random_tokens(70, 52, config.vocab_size), -1});
    batch.segments.push_back({random_tokens(33, 53, config.vocab_size), 0});
    predict_within_segments(batch);
    const Scores scores = LearnerBench(weights, 2, {}, 0, type).score(batch);
    SerialParallel serial;
    DecoderForward decoder(pack_weights(weights, type, serial), config.vocab_size);
    CachedSequence sequence(config, 16, type);
    size_t n = 0;
    std::vector<float> logits(config.vocab_size);
    for (size_t s = 0; s < 2; ++s) {
      for (size_t i = 0; i < batch.segments[s].tokens.size(); ++i) {
        const SequenceChunk chunk = sequence.append({&batch.segments[s].tokens[i], 1});
        const std::vector<int32_t> row = {0};
        decoder.run({&chunk, 1}, row, logits.data(), serial);
        if (n == batch.segment.size() || batch.segment[n] != static_cast<int32_t>(s) ||
            batch.offset[n] != static_cast<int32_t>(i))
          continue;
        EXPECT_EQ(log_probability(logits, 1.0f, batch.target[n]), scores.log_probability[n]) << n;
        ++n;
      }
    }
    EXPECT_EQ(n, batch.segment.size());
  }
}

TEST(CpuLearner, ScoresEqualTheSamplersLogProbabilitiesBitForBit) {
  for (const ComputeType type : kComputeTypes) expect_bits_of_the_sampler(type);
}

TEST(CpuLearner, GradientsOfMicroBatchesAddUp) {
  const ModelConfig config = even_config();
  const Weights weights = random_weights(config, 61);
  Batch whole;
  for (size_t s = 0; s < 6; ++s)
    whole.segments.push_back({random_tokens(20 + 11 * s, 62 + s, config.vocab_size), -1});
  std::vector<Batch> parts(6);
  for (size_t s = 0; s < 6; ++s) parts[s].segments.push_back(whole.segments[s]);
  predict_within_segments(whole);
  LearnerBench together(weights, 2), apart(weights, 1);
  const auto train = [](LearnerBench& bench, const Batch& batch) {
    ForwardResult result = bench.forward(batch);
    bench.backward(std::move(result.tape),
                   {std::vector<float>(result.scores.log_probability.size(), -0.01f), {}, {}});
  };
  train(together, whole);
  for (Batch& part : parts) {
    predict_within_segments(part);
    train(apart, part);
  }
  for (size_t t = 0; t < weights.manifest().size(); ++t) {
    EXPECT_LT(relative_error(apart.learner().gradients().tensor(t), together.learner().gradients().tensor(t)),
              1e-5);
  }
}

TEST(CpuLearner, ForwardAndScoreAgreeAndMemoryIsUsedAgain) {
  const ModelConfig config = odd_config();
  const Weights weights = random_weights(config, 71);
  const Batch large = forest(config.vocab_size, 72);
  Batch small;
  small.segments.push_back({random_tokens(5, 73, config.vocab_size), -1});
  predict_within_segments(small);
  LearnerBench used(weights, 2);
  used.accumulate(large);
  used.accumulate(small);
  const Scores again = used.accumulate(large);
  const Scores scored = used.score(large);
  EXPECT_EQ(first_difference(again.log_probability, scored.log_probability), -1);
  LearnerBench fresh(weights, 2);
  EXPECT_EQ(first_difference(again.log_probability, fresh.accumulate(large).log_probability), -1);
}

}  // namespace
}  // namespace stoker::cpu
