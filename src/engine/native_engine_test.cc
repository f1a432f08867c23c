#include "engine/native_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "async/real_executor.h"
#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "async/timeout.h"
#include "base/error.h"
#include "engine/native_engine_test_support.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

TEST(NativeEngine, TheSameAloneAndInABatchOf64) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = random_requests(1, 64);
  const std::vector<Outcome> expected = alone(requests, weights);
  size_t different = 0;
  for (const Outcome& outcome : expected) different += outcome.ids() != expected[0].ids();
  ASSERT_GT(different, 50u) << "samples must depend on the request for this to test anything";
  for (const int32_t chunk : {1, 3, 16, 50, 512}) {
    SCOPED_TRACE("prefill chunk " + std::to_string(chunk));
    SimulatedExecutor executor(7);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, weights, {.prefill_chunk = chunk});
    expect_same(run(executor, generate_all(engine, requests)), expected);
    EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
  }
}

TEST(NativeEngine, TheSameOnTwoThreadsAndOnTheRealExecutor) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = random_requests(2, 40);
  const std::vector<Outcome> expected = alone(requests, weights);
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    RealExecutor executor;
    ComputePool pool(threads);
    NativeEngine engine(executor, pool, weights, {.max_batch = 24});
    expect_same(run(executor, generate_all(engine, requests)), expected);
    EXPECT_GT(engine.statistics().busy_seconds, 0);
    EXPECT_LT(engine.statistics().busy_seconds, to_seconds(executor.now()));
  }
}

TEST(NativeEngine, TheSameWithAndWithoutPrefixSharing) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = grouped_requests(3, 12);
  const std::vector<Outcome> expected = alone(requests, weights);
  for (const bool sharing : {false, true}) {
    SimulatedExecutor executor(5);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, weights, {.prefill_chunk = 40, .prefix_cache = sharing});
    expect_same(run(executor, generate_all(engine, requests)), expected);
    EXPECT_EQ(engine.statistics().cached_tokens > 0, sharing);
    expect_same(run(executor, generate_all(engine, requests)), expected);  // everything cached by now
  }
}

TEST(NativeEngine, TheSameAfterPreemption) {
  const WeightsPtr weights = test_weights(3);
  std::vector<GenerateRequest> requests = grouped_requests(4, 6);
  for (GenerateRequest& request : requests) request.stop = {.max_tokens = 75};
  const std::vector<Outcome> expected = alone(requests, weights);
  for (const bool sharing : {false, true}) {
    SimulatedExecutor executor(5);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, weights,
                        {.max_cache_bytes = cache_bytes(10), .prefill_chunk = 30, .prefix_cache = sharing});
    expect_same(run(executor, generate_all(engine, requests)), expected);
    EXPECT_GT(engine.statistics().preemptions, 0);
    EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
  }
}

TEST(NativeEngine, AGroupComputesItsPromptOnce) {
  RandomStream random(StreamKey{.run_seed = 5});
  std::vector<GenerateRequest> requests(8, {.tokens = random_tokens(random, 70), .stop = {.max_tokens = 3}});
  for (uint32_t i = 0; i < 8; ++i) requests[i].stream.sample = i;
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {.prefill_chunk = 48});
  const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
  // Four full blocks of 16 once, the remaining 6 tokens by each.
  EXPECT_EQ(engine.statistics().prefill_tokens, 64 + 8 * 6);
  EXPECT_EQ(engine.statistics().cached_tokens, 7 * 64);
  int64_t cached = 0;
  for (const Outcome& outcome : outcomes) cached += outcome.completion->cached_tokens;
  EXPECT_EQ(cached, 7 * 64);
}

TEST(NativeEngine, TheNextTurnFindsItsHistory) {
  RandomStream random(StreamKey{.run_seed = 6});
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  GenerateRequest request{.tokens = random_tokens(random, 20), .stop = {.max_tokens = 30}};
  const Outcome first = run(executor, generate_all(engine, {request})).front();
  ASSERT_EQ(first.tokens.size(), 30u);
  for (int32_t id : first.ids()) request.tokens.push_back(id);
  for (int32_t id : random_tokens(random, 9)) request.tokens.push_back(id);
  request.stream.turn = 1;
  const Outcome second = run(executor, generate_all(engine, {request})).front();
  EXPECT_EQ(second.completion->cached_tokens, 48) << "49 positions of the first turn were computed";
  expect_same({second}, alone({request}, test_weights(0)));
}

TEST(NativeEngine, LogProbabilitiesAreThoseOfScore) {
  const std::vector<GenerateRequest> requests = random_requests(7, 30);
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(2), {.prefill_chunk = 13});
  const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<int32_t> tokens = requests[i].tokens;
    for (int32_t id : outcomes[i].ids()) tokens.push_back(id);
    const std::vector<float> scores = *run(executor, engine.score(tokens, requests[i].sampling.temperature));
    ASSERT_EQ(scores.size(), tokens.size() - 1);
    for (size_t t = 0; t < outcomes[i].tokens.size(); ++t) {
      EXPECT_EQ(scores[requests[i].tokens.size() - 1 + t], outcomes[i].tokens[t].log_probability);
    }
  }
}

TEST(NativeEngine, AnInterruptedRequestGoesOnWithTheSameDraws) {
  RandomStream random(StreamKey{.run_seed = 8});
  GenerateRequest request{.tokens = random_tokens(random, 20), .stop = {.max_tokens = 30}};
  const Outcome whole = alone({request}, test_weights(0)).front();
  for (size_t cut : {1, 7, 29}) {
    GenerateRequest rest = request;
    for (size_t i = 0; i < cut; ++i) rest.tokens.push_back(whole.tokens[i].id);
    rest.first_position = cut;
    rest.stop.max_tokens = static_cast<int32_t>(30 - cut);
    const Outcome continued = alone({rest}, test_weights(0)).front();
    const std::vector<int32_t> ids = whole.ids();
    EXPECT_EQ(continued.ids(), std::vector<int32_t>(ids.begin() + static_cast<int64_t>(cut), ids.end()));
  }
}

TEST(NativeEngine, SMP_11_SamplesOfOneSeedDifferAndRepeat) {
  RandomStream random(StreamKey{.run_seed = 8});
  std::vector<GenerateRequest> requests(
      32,
      {.tokens = random_tokens(random, 20), .sampling = {.temperature = 1.5f}, .stop = {.max_tokens = 30}});
  for (uint32_t i = 0; i < 32; ++i) requests[i].stream = {.run_seed = 7, .sample = i};
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  const std::vector<Outcome> outcomes = run(executor, generate_all(engine, requests));
  for (size_t i = 0; i < 32; ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(outcomes[i].ids(), outcomes[j].ids()) << i << " and " << j;
  }
  expect_same(run(executor, generate_all(engine, requests)), outcomes);
}

TEST(NativeEngine, SMP_13_ExactlyMaxTokensAndNoFurtherThanTheModel) {
  RandomStream random(StreamKey{.run_seed = 8});
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  const auto outcome = [&](size_t context, int32_t max_tokens) {
    const GenerateRequest request{.tokens = random_tokens(random, context),
                                  .stop = {.max_tokens = max_tokens}};
    return run(executor, generate_all(engine, {request})).front();
  };
  EXPECT_EQ(outcome(4, 1).tokens.size(), 1u);
  EXPECT_EQ(outcome(4, 0).failure->name(), "limit.max_tokens");
  // The model has 160 positions.
  EXPECT_EQ(outcome(159, 1).tokens.size(), 1u);
  EXPECT_EQ(outcome(150, 100).tokens.size(), 10u);
  EXPECT_EQ(outcome(150, 100).completion->stop_reason, StopReason::kLength);
  EXPECT_EQ(outcome(160, 1).failure->name(), "limit.context_length");
}

TEST(NativeEngine, TheCacheBoundsTheContext) {
  RandomStream random(StreamKey{.run_seed = 8});
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {.max_cache_bytes = cache_bytes(2)});
  const auto outcome = [&](size_t context) {
    const GenerateRequest request{.tokens = random_tokens(random, context), .stop = {.max_tokens = 100}};
    return run(executor, generate_all(engine, {request})).front();
  };
  EXPECT_EQ(outcome(20).tokens.size(), 12u);
  EXPECT_EQ(outcome(32).failure->name(), "limit.context_length");
}

TEST(NativeEngine, AStopTokenEndsTheSpanAndBelongsToIt) {
  RandomStream random(StreamKey{.run_seed = 8});
  GenerateRequest request{.tokens = random_tokens(random, 20), .stop = {.max_tokens = 30}};
  const std::vector<int32_t> ids = alone({request}, test_weights(0)).front().ids();
  request.stop.tokens = {ids[9]};
  const Outcome stopped = alone({request}, test_weights(0)).front();
  EXPECT_EQ(stopped.completion->stop_reason, StopReason::kStopToken);
  const auto end = std::find(ids.begin(), ids.end(), ids[9]) + 1;
  EXPECT_EQ(stopped.ids(), std::vector<int32_t>(ids.begin(), end));
}

TEST(NativeEngine, IdsWithoutATokenAreNeverSampled) {
  std::vector<GenerateRequest> requests = random_requests(9, 20);
  for (GenerateRequest& request : requests) request.sampling.temperature = 3;
  SimulatedExecutor executor(5);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {.vocabulary_size = 11});
  for (const Outcome& outcome : run(executor, generate_all(engine, requests))) {
    for (int32_t id : outcome.ids()) EXPECT_LT(id, 11);
  }
  EXPECT_THROW((void)run(executor, engine.score({1, 12}, 1)), Error);
}

TEST(NativeEngine, CancellationFreesTheCacheAndKeepsTheTokens) {
  RandomStream random(StreamKey{.run_seed = 13});
  const GenerateRequest request{.tokens = random_tokens(random, 40), .stop = {.max_tokens = 100}};
  const Outcome whole = alone({request}, test_weights(0)).front();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedExecutor executor(seed);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, test_weights(0), {});
    Outcome outcome;
    EXPECT_TRUE(run(executor, with_timeout(10ms, generate_into(engine, request, outcome))));
    EXPECT_TRUE(outcome.cancelled);
    EXPECT_GT(outcome.tokens.size(), 2u);
    EXPECT_LT(outcome.tokens.size(), 100u);
    const std::vector<int32_t> ids = outcome.ids(), all = whole.ids();
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all.begin()));
    EXPECT_EQ(engine.statistics().running_requests, 0);
    EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
    EXPECT_LT(executor.now().time_since_epoch(), 12ms) << "within a step";
  }
}

TEST(NativeEngine, ACancelledRequestNeverStarts) {
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  CancellationSource source;
  source.request();
  TokenRecord sink;
  GenerateRequest request{.tokens = {1}, .stop = {.max_tokens = 5}};
  EXPECT_THROW((void)run(executor, engine.generate(request, sink), source.token()), Cancelled);
  EXPECT_TRUE(sink.tokens.empty());
  EXPECT_EQ(engine.statistics().decode_steps, 0);
}

Task<> close_later(NativeEngine& engine, Duration delay) {
  co_await sleep_for(delay);
  co_await engine.close();
}

Task<std::vector<Outcome>> generate_until_closed(NativeEngine& engine,
                                                 std::vector<GenerateRequest> requests) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(close_later(engine, 5ms));
  std::vector<Outcome> outcomes = co_await generate_all(engine, std::move(requests));
  co_await scope.join();
  co_return outcomes;
}

TEST(NativeEngine, ClosingEndsEveryRequest) {
  std::vector<GenerateRequest> requests = random_requests(14, 30);
  for (GenerateRequest& request : requests) request.stop = {.max_tokens = 100};
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {.max_batch = 10});
  for (const Outcome& outcome : run(executor, generate_until_closed(engine, requests))) {
    ASSERT_TRUE(outcome.failure.has_value());
    EXPECT_EQ(outcome.failure->name(), "infrastructure.shut_down");
  }
  EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
  EXPECT_EQ(run(executor, generate_all(engine, {requests[0]})).front().failure->name(),
            "infrastructure.shut_down");
  EXPECT_EQ(run(executor, engine.publish(test_weights(9))).failure().name(), "infrastructure.shut_down");
  EXPECT_EQ(run(executor, engine.score({1, 2}, 1)).failure().name(), "infrastructure.shut_down");
}

TEST(NativeEngine, BrokenWeightsAreAFailureOfTheRequest) {
  auto weights = std::make_shared<Weights>(*test_weights(1));
  weights->tensor("model.norm.weight")[0] = std::numeric_limits<float>::quiet_NaN();
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, weights, {});
  const Outcome outcome =
      run(executor, generate_all(engine, {{.tokens = {1, 2}, .stop = {.max_tokens = 5}}})).front();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_EQ(outcome.failure->name(), "infrastructure.logits_not_finite");
  EXPECT_TRUE(outcome.tokens.empty());
  EXPECT_EQ(engine.statistics().running_requests, 0);
}

class ThrowingSink final : public TokenSink {
 public:
  void accept(const SampledToken&) override { throw std::runtime_error("the sink is full"); }
};

TEST(NativeEngine, WhatASinkThrowsComesOutOfItsRequestAlone) {
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  ThrowingSink sink;
  const GenerateRequest request{.tokens = {1, 2}, .stop = {.max_tokens = 5}};
  EXPECT_THROW((void)run(executor, engine.generate(request, sink)), std::runtime_error);
  EXPECT_EQ(run(executor, generate_all(engine, {request})).front().tokens.size(), 5u);
}

TEST(NativeEngine, RefusesWhatCannotBeServed) {
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  TokenRecord sink;
  const auto message = [&](const GenerateRequest& request) -> std::string {
    try {
      (void)run(executor, engine.generate(request, sink));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({.tokens = {1, 37}, .stop = {.max_tokens = 1}}).find("Token 1 of the context has id 37"),
            std::string::npos);
  EXPECT_NE(message({.tokens = {-1}, .stop = {.max_tokens = 1}}).find("id -1"), std::string::npos);
  EXPECT_NE(message({.tokens = {1}, .stop = {.max_tokens = 1, .strings = {"END"}}}).find("tokenizer"),
            std::string::npos);
  EXPECT_NE(message({.tokens = {1}, .sampling = {.top_p = 0}, .stop = {.max_tokens = 1}}).find("top_p"),
            std::string::npos);
  EXPECT_THROW(NativeEngine(executor, pool, test_weights(0), {.max_cache_bytes = 100}), Error);
  EXPECT_THROW(NativeEngine(executor, pool, test_weights(0), {.vocabulary_size = 38}), Error);
  EXPECT_THROW(NativeEngine(executor, pool, test_weights(0), {.max_batch = 0}), Error);
}

TEST(NativeEngine, ScoreOfShortInputsIsEmpty) {
  SimulatedExecutor executor(3);
  ComputePool pool(1);
  NativeEngine engine(executor, pool, test_weights(0), {});
  EXPECT_TRUE(run(executor, engine.score({}, 1))->empty());
  EXPECT_TRUE(run(executor, engine.score({3}, 1))->empty());
  EXPECT_EQ(run(executor, engine.score(std::vector<int32_t>(161, 1), 1)).failure().name(),
            "limit.context_length");
}

// Requests that come and go, are cancelled, share prompts and meet publications, in little memory.
struct Stress {
  NativeEngine& engine;
  std::vector<GenerateRequest> requests;
  std::vector<Outcome> outcomes;
  std::vector<Duration> starts, limits;
};

Task<> stressed_request(Stress& stress, size_t index) {
  co_await sleep_for(stress.starts[index]);
  co_await with_timeout(stress.limits[index],
                        generate_into(stress.engine, stress.requests[index], stress.outcomes[index]));
}

Task<> stress_engine(Stress& stress, std::vector<WeightsPtr> publications) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (size_t i = 0; i < stress.requests.size(); ++i) scope.spawn(stressed_request(stress, i));
  for (size_t i = 0; i < publications.size(); ++i) {
    scope.spawn(publish_later(stress.engine, Duration(10ms) * static_cast<int>(i + 1), publications[i]));
  }
  co_await scope.join();
}

TEST(NativeEngine, RandomUseWithCancellationsAndPublications) {
  const std::vector<WeightsPtr> versions = {test_weights(1, 1), test_weights(2, 2), test_weights(3, 3)};
  int64_t cancelled = 0, checked = 0, preemptions = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(StreamKey{.run_seed = seed});
    std::vector<GenerateRequest> requests = grouped_requests(100 + seed, 15);
    std::vector<std::vector<Outcome>> expected;
    for (const WeightsPtr& weights : versions) expected.push_back(alone(requests, weights));

    SimulatedExecutor executor(seed);
    ComputePool pool(1);
    NativeEngine engine(executor, pool, versions[0],
                        {.max_batch = 12, .max_cache_bytes = cache_bytes(24), .prefill_chunk = 25});
    Stress stress{engine, requests, std::vector<Outcome>(requests.size()), {}, {}};
    for (size_t i = 0; i < requests.size(); ++i) {
      stress.starts.push_back(Duration(static_cast<int64_t>(random.below(30'000'000))));
      stress.limits.push_back(Duration(static_cast<int64_t>(random.below(80'000'000))));
    }
    run(executor, stress_engine(stress, {versions[1], versions[2]}));
    EXPECT_EQ(engine.version(), 3);
    EXPECT_EQ(engine.statistics().cache_blocks_used, 0);
    EXPECT_EQ(engine.statistics().running_requests + engine.statistics().waiting_requests, 0);
    preemptions += engine.statistics().preemptions;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Outcome& outcome = stress.outcomes[i];
      EXPECT_TRUE(outcome.cancelled || outcome.completion.has_value());
      cancelled += outcome.cancelled;
      if (outcome.tokens.empty() || outcome.tokens.back().version != outcome.tokens.front().version) continue;
      const Outcome& whole = expected[static_cast<size_t>(outcome.tokens.front().version - 1)][i];
      ASSERT_LE(outcome.tokens.size(), whole.tokens.size());
      Outcome prefix = whole;
      prefix.tokens.resize(outcome.tokens.size());
      EXPECT_TRUE(same_sample(outcome, prefix)) << "request " << i;
      ++checked;
    }
  }
  EXPECT_GT(cancelled, 50);
  EXPECT_GT(checked, 200);
  EXPECT_GT(preemptions, 0);
}

}  // namespace
}  // namespace stoker
