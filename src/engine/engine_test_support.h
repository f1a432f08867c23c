#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/scope.h"
#include "async/task.h"
#include "base/random.h"
#include "engine/engine.h"

// Requests and what became of them, for the tests of engines.
namespace stoker {

// A sink that keeps everything, and that wants to be told once, before its first token, that it has its
// place.
class TokenRecord final : public TokenSink {
 public:
  void started() override { EXPECT_EQ(++starts, 1); }
  void accept(const SampledToken& token) override {
    EXPECT_EQ(starts, 1);
    tokens.push_back(token);
  }
  std::vector<SampledToken> tokens;
  int starts = 0;
};

struct Outcome {
  std::vector<SampledToken> tokens;
  std::optional<Completion> completion;
  std::optional<Failure> failure;
  bool cancelled = false;

  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const SampledToken& token : tokens) ids.push_back(token.id);
    return ids;
  }
};

// Ids and log-probabilities are the same bits.
inline bool same_sample(const Outcome& a, const Outcome& b) {
  if (a.tokens.size() != b.tokens.size()) return false;
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    if (a.tokens[i].id != b.tokens[i].id || a.tokens[i].log_probability != b.tokens[i].log_probability)
      return false;
  }
  return true;
}

inline ModelConfig test_model_config() {
  return {.vocab_size = 37,
          .hidden_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .intermediate_size = 40,
          .max_position_embeddings = 160,
          .qk_norm = true};
}

// Weights whose logits are spread out, so that samples depend on the context.
inline WeightsPtr test_weights(int64_t version, uint64_t seed = 1) {
  auto weights = std::make_shared<Weights>(initialize_weights(test_model_config(), seed));
  for (float& value : weights->tensor("lm_head.weight")) value *= 40;
  weights->set_version(version);
  return weights;
}

inline std::vector<int32_t> random_tokens(RandomStream& random, size_t count, int32_t vocabulary = 37) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary)));
  return tokens;
}

// A request of random length, sampling settings and stop tokens; `ordinal` names its stream.
inline GenerateRequest random_request(RandomStream& random, uint64_t ordinal) {
  GenerateRequest request{.tokens = random_tokens(random, 1 + random.below(70)),
                          .sampling = {.temperature = static_cast<float>(0.5 + random.uniform())},
                          .stop = {.max_tokens = static_cast<int32_t>(1 + random.below(40))},
                          .stream = {.run_seed = 9, .task_ordinal = ordinal}};
  if (random.below(3) == 0) request.sampling.top_k = static_cast<int32_t>(1 + random.below(10));
  if (random.below(3) == 0) request.sampling.top_p = static_cast<float>(0.3 + 0.7 * random.uniform());
  if (random.below(5) == 0) request.sampling.temperature = 0;
  if (random.below(3) == 0) request.stop.tokens = {static_cast<int32_t>(random.below(37))};
  return request;
}

inline Task<> generate_into(Engine& engine, GenerateRequest request, Outcome& outcome) {
  TokenRecord sink;
  try {
    Result<Completion> result = co_await engine.generate(std::move(request), sink);
    if (result) {
      outcome.completion = *result;
    } else {
      outcome.failure = result.failure();
    }
  } catch (const Cancelled&) {
    outcome.cancelled = true;
  }
  outcome.tokens = std::move(sink.tokens);
}

// All at once.
inline Task<std::vector<Outcome>> generate_all(Engine& engine, std::vector<GenerateRequest> requests) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  std::vector<Outcome> outcomes(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) scope.spawn(generate_into(engine, requests[i], outcomes[i]));
  co_await scope.join();
  co_return outcomes;
}

}  // namespace stoker
