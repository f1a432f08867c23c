#include "engine/native_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/native_engine_test_support.h"

namespace stoker {
namespace {

// No id twice in a row, and none that the count of the turn's tokens names.
class NoRepeats final : public TokenMask {
 public:
  void forbid(std::span<const int32_t> tokens, int32_t sampled, std::span<uint8_t> allowed) const override {
    allowed[static_cast<size_t>(tokens.back())] = 0;
    allowed[static_cast<size_t>(sampled) % allowed.size()] = 0;
  }
};

std::vector<int32_t> every_id() {
  std::vector<int32_t> ids(static_cast<size_t>(test_model_config().vocab_size));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

std::vector<GenerateRequest> controlled_requests(size_t count) {
  std::vector<GenerateRequest> requests = random_requests(12, count);
  const auto mask = std::make_shared<const NoRepeats>();
  for (size_t i = 0; i < count; ++i) {
    requests[i].stop = {.max_tokens = 50};
    requests[i].sampling.repetition_penalty = i % 2 == 0 ? 1.3f : 1;
    requests[i].sampling.presence_penalty = i % 3 == 0 ? 0.5f : 0;
    requests[i].sampling.frequency_penalty = i % 3 != 2 ? 0.7f : 0;
    requests[i].sampling.logit_bias = {{3, -2}, {5, 1}};
    requests[i].sampling.forbidden_tokens = {1, 9};
    if (i % 4 != 3) requests[i].mask = mask;
  }
  return requests;
}

TEST(NativeEngine, ControlsAreTheSameInABatchAndAfterPreemption) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = controlled_requests(24);
  const std::vector<Outcome> expected = alone(requests, weights);
  SimulatedExecutor executor(5);
  ComputePool pool(2);
  NativeEngine engine(executor, pool, weights, {.max_cache_bytes = cache_bytes(12), .prefill_chunk = 30});
  const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
  expect_same(outcomes, expected);
  EXPECT_GT(engine.statistics().preemptions, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    int32_t last = requests[i].tokens.back();
    for (size_t t = 0; t < outcomes[i].tokens.size(); ++t) {
      const int32_t id = outcomes[i].tokens[t].id;
      EXPECT_TRUE(id != 1 && id != 9);
      if (requests[i].mask != nullptr) EXPECT_TRUE(id != last && id != static_cast<int32_t>(t % 37));
      last = id;
    }
  }
}

TEST(NativeEngine, AnInterruptedRequestGoesOnUnderTheSameControls) {
  const GenerateRequest request = controlled_requests(1).front();
  const Outcome whole = alone({request}, test_weights(0)).front();
  GenerateRequest rest = request;
  for (size_t i = 0; i < 20; ++i) rest.tokens.push_back(whole.tokens[i].id);
  rest.first_position = 20;
  rest.stop.max_tokens = 30;
  const Outcome continued = alone({rest}, test_weights(0)).front();
  const std::vector<int32_t> ids = whole.ids();
  EXPECT_EQ(continued.ids(), std::vector<int32_t>(ids.begin() + 20, ids.end()));
}

TEST(NativeEngine, ReportsTopAndDrawnLogProbabilities) {
  RandomStream random(StreamKey{.run_seed = 8});
  const GenerateRequest request{.tokens = random_tokens(random, 20),
                                .sampling = {.top_k = 5, .top_log_probabilities = 37},
                                .stop = {.max_tokens = 10}};
  const Outcome outcome = alone({request}, test_weights(0)).front();
  for (const SampledToken& token : outcome.tokens) {
    ASSERT_EQ(token.top.size(), 37u);
    double kept = 0;
    for (size_t i = 0; i < 5; ++i) kept += std::exp(static_cast<double>(token.top[i].log_probability));
    EXPECT_NEAR(token.drawn_log_probability, token.log_probability - std::log(kept), 1e-5);
    const auto own = std::find_if(token.top.begin(), token.top.end(),
                                  [&](const TokenLogProbability& top) { return top.id == token.id; });
    EXPECT_EQ(own->log_probability, token.log_probability);
  }
}

TEST(NativeEngine, RefusesControlsOfIdsThatItHasNot) {
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  for (const SamplingParameters& sampling :
       {SamplingParameters{.logit_bias = {{37, 1}}}, SamplingParameters{.forbidden_tokens = {-1}}}) {
    const GenerateRequest request{.tokens = {1}, .sampling = sampling, .stop = {.max_tokens = 1}};
    EXPECT_THROW(run(executor, generate_all(engine, {request})), Error);
  }
  const GenerateRequest request{
      .tokens = {1}, .sampling = {.forbidden_tokens = every_id()}, .stop = {.max_tokens = 1}};
  const Outcome outcome = run(executor, generate_all(engine, {request})).front();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_EQ(outcome.failure->name(), "policy.no_token_allowed");
}

}  // namespace
}  // namespace stoker
