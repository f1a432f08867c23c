#include "compute/cpu/cpu_learner.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
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
  return {odd, even, biased};
}

// Two prompts with three and two answers, one of which has a continuation of its own; other rows, other
// temperatures, two candidates.
Batch forest(int32_t vocabulary, uint64_t seed) {
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

TEST(CpuLearner, ScoresHaveTheBitsOfThePlainTwin) {
  for (const ModelConfig& config : configs()) {
    const Weights weights = random_weights(config, 3);
    const Batch batch = forest(config.vocab_size, 4);
    const Scores scores = LearnerBench(weights).score(batch);
    for (size_t n = 0; n < batch.segment.size(); ++n) {
      const int32_t s = batch.segment[n];
      const std::vector<int32_t> tokens = full_sequence(batch, s);
      const size_t row = tokens.size() - batch.segments[s].tokens.size() + batch.offset[n];
      const std::vector<float> logits = reference::sequence_logits<float>(config, weights.values(), tokens);
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

TEST(CpuLearner, GradientsMatchFiniteDifferences) {
  for (const ModelConfig& config : configs()) {
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
      // A directional derivative over the whole tensor, and two single elements.
      for (int probe = 0; probe < 3; ++probe) {
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
}

}  // namespace
}  // namespace stoker::cpu
