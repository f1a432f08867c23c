#include "engine/native_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "async/sleep.h"
#include "base/error.h"
#include "engine/native_engine_test_support.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

Task<std::vector<Outcome>> generate_while_publishing(Engine& engine, std::vector<GenerateRequest> requests,
                                                     WeightsPtr weights, Duration delay) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(publish_later(engine, delay, std::move(weights)));
  std::vector<Outcome> outcomes = co_await generate_all(engine, std::move(requests));
  co_await scope.join();
  co_return outcomes;
}

// Every token of another version than the first is mixed; tokens before the swap are those of the old
// weights.
TEST(NativeEngine, WGT_03_AWeightSwapMarksTheTokensBehindIt) {
  const WeightsPtr old_weights = test_weights(3, 1), new_weights = test_weights(4, 2);
  std::vector<GenerateRequest> requests = random_requests(10, 20);
  for (GenerateRequest& request : requests) request.stop = {.max_tokens = 40};
  const std::vector<Outcome> expected = alone(requests, old_weights);
  int swapped = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedExecutor executor(seed);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, old_weights, {});
    const std::vector<Outcome> outcomes =
        run(executor, generate_while_publishing(engine, requests, new_weights, 8ms));
    EXPECT_EQ(engine.version(), 4);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const std::vector<SampledToken>& tokens = outcomes[i].tokens;
      ASSERT_EQ(tokens.size(), std::min<size_t>(40, 160 - requests[i].tokens.size()));
      const int64_t first_version = tokens[0].version;
      for (size_t t = 0; t < tokens.size(); ++t) {
        EXPECT_TRUE(tokens[t].version == 3 || tokens[t].version == 4);
        if (t > 0) EXPECT_GE(tokens[t].version, tokens[t - 1].version);
        EXPECT_EQ(tokens[t].mixed, tokens[t].version != first_version);
        if (tokens[t].version == 3) {
          EXPECT_EQ(tokens[t].id, expected[i].tokens[t].id);
          EXPECT_EQ(tokens[t].log_probability, expected[i].tokens[t].log_probability);
        }
      }
      swapped += first_version == 3 && tokens.back().version == 4;
    }
  }
  EXPECT_GT(swapped, 20);
}

// What is sampled behind the swap is what the new weights give for all that came before it.
TEST(NativeEngine, RecomputedSequencesGoOnAsTheNewWeightsWould) {
  const WeightsPtr old_weights = test_weights(3, 1), new_weights = test_weights(4, 2);
  std::vector<GenerateRequest> requests = grouped_requests(10, 5);
  for (GenerateRequest& request : requests) request.stop = {.max_tokens = 40};
  int swapped = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SimulatedExecutor executor(seed);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, old_weights, {.prefill_chunk = 16, .recompute_cache = true});
    const std::vector<Outcome> outcomes =
        run(executor, generate_while_publishing(engine, requests, new_weights, 8ms));
    EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const std::vector<SampledToken>& tokens = outcomes[i].tokens;
      GenerateRequest rest = requests[i];
      std::vector<SampledToken> behind;
      for (const SampledToken& token : tokens) {
        EXPECT_FALSE(token.mixed);
        if (token.version == 4) {
          behind.push_back(token);
        } else {
          rest.tokens.push_back(token.id);
        }
      }
      if (behind.empty() || behind.size() == tokens.size()) continue;
      ++swapped;
      rest.first_position = tokens.size() - behind.size();
      rest.stop.max_tokens = static_cast<int32_t>(behind.size());
      expect_same({{.tokens = behind, .completion = outcomes[i].completion}}, alone({rest}, new_weights));
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(swapped, 20);
}

TEST(NativeEngine, WGT_01_NoCacheOfOldWeightsServesNewOnes) {
  const WeightsPtr old_weights = test_weights(1, 1), new_weights = test_weights(2, 2);
  const std::vector<GenerateRequest> requests = grouped_requests(11, 8);
  const std::vector<Outcome> expected = alone(requests, new_weights);
  for (const bool sharing : {false, true}) {
    SimulatedExecutor executor(3);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, old_weights, {.prefix_cache = sharing});
    run(executor, generate_all(engine, requests));
    // The swap comes while sequences of the same prompts are in flight, whose blocks stay in use.
    run(executor, generate_while_publishing(engine, requests, new_weights, 3ms));
    const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
    expect_same(outcomes, expected);
    for (const Outcome& outcome : outcomes) {
      for (const SampledToken& token : outcome.tokens) EXPECT_TRUE(token.version == 2 && !token.mixed);
    }
  }
}

Task<> publish_until(Engine& engine, const bool& done, int64_t& published) {
  while (!done && published < 400) {
    EXPECT_TRUE((co_await engine.publish(test_weights(++published, 1))).ok());
  }
}

Task<Outcome> generate_under_publications(Engine& engine, GenerateRequest request, int64_t& published) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  bool done = false;
  scope.spawn(publish_until(engine, done, published));
  Outcome outcome;
  co_await generate_into(engine, std::move(request), outcome);
  done = true;
  co_await scope.join();
  co_return outcome;
}

TEST(NativeEngine, AContextLongerThanThePublicationIntervalIsComputedAllTheSame) {
  for (const bool sharing : {false, true}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      RandomStream random(StreamKey{.run_seed = seed});
      SimulatedExecutor executor(seed);
      ComputePool pool(1);
      NativeEngine engine(executor, pool, test_weights(0, 1), {.prefill_chunk = 4, .prefix_cache = sharing});
      int64_t published = 0;
      const Outcome outcome =
          run(executor,
              generate_under_publications(
                  engine, {.tokens = random_tokens(random, 140), .stop = {.max_tokens = 5}}, published));
      ASSERT_EQ(outcome.tokens.size(), 5u);
      EXPECT_LT(published, 400) << "it ended only when nothing was published any more";
      EXPECT_LE(engine.statistics().prefill_tokens, 2 * 140) << "it starts over once";
      for (const SampledToken& token : outcome.tokens) EXPECT_TRUE(token.mixed);
      EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
    }
  }
}

TEST(NativeEngine, WGT_07_WGT_09_EveryTensorIsServedAndTheVersionIsTheWeightsOwn) {
  const std::vector<GenerateRequest> requests = random_requests(13, 5);
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(5, 1), {});
  const std::vector<Outcome> old = run(executor, generate_all(engine, requests));
  for (size_t tensor = 0; tensor < weight_manifest(test_model_config()).size(); ++tensor) {
    // One tensor differs, in its first number too.
    auto changed = std::make_shared<Weights>(*test_weights(6, 1));
    for (float& value : changed->tensor(tensor)) value = 1.5f * value + 0.01f;
    ASSERT_TRUE(run(executor, engine.publish(changed)).ok());
    EXPECT_EQ(engine.version(), 6) << "not the number of publications";
    expect_same(run(executor, generate_all(engine, requests)), alone(requests, changed));
  }
  auto refused = std::make_shared<Weights>(*test_weights(4, 2));
  EXPECT_FALSE(run(executor, engine.publish(refused)).ok());
  EXPECT_EQ(engine.version(), 6);
}

TEST(NativeEngine, PublishRefusesOldVersionsAndOtherModels) {
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(5), {});
  EXPECT_EQ(run(executor, engine.publish(test_weights(4))).failure().name(), "infrastructure.stale_version");
  ModelConfig config = test_model_config();
  config.num_hidden_layers = 1;
  const auto other = std::make_shared<Weights>(config);
  EXPECT_EQ(run(executor, engine.publish(other)).failure().name(), "infrastructure.weights_mismatch");
  EXPECT_EQ(engine.version(), 5);
  EXPECT_TRUE(run(executor, engine.publish(test_weights(5, 2))).ok());
}

TEST(NativeEngine, TheSameVersionPublishedAgainWithOtherWeightsServesThem) {
  const std::vector<GenerateRequest> requests = random_requests(12, 5);
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(5, 1), {});
  run(executor, generate_all(engine, requests));
  ASSERT_TRUE(run(executor, engine.publish(test_weights(5, 2))).ok());
  expect_same(run(executor, generate_all(engine, requests)), alone(requests, test_weights(5, 2)));
}

}  // namespace
}  // namespace stoker
