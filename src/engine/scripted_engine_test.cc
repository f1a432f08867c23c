#include "engine/scripted_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "async/timeout.h"
#include "engine/engine_test_support.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

class Tokens final : public TokenSink {
 public:
  void accept(const SampledToken& token) override { tokens.push_back(token); }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const SampledToken& token : tokens) ids.push_back(token.id);
    return ids;
  }
  std::vector<SampledToken> tokens;
};

GenerateRequest request_of(std::vector<int32_t> tokens, int32_t max_tokens = 100) {
  return GenerateRequest{.tokens = std::move(tokens), .stop = {.max_tokens = max_tokens, .tokens = {2}}};
}

TEST(ScriptedEngine, AnswersFromTheRequest) {
  ScriptedEngine engine([](const GenerateRequest& request) {
    return ScriptedAnswer{.tokens = {request.tokens.back() + 1, 5, 2, 9},
                          .log_probabilities = {-0.5f, -1.5f, -2.5f, -3.5f},
                          .text = "five"};
  });
  SimulatedExecutor executor(1);
  Tokens sink;
  Result<Completion> completion = run(executor, engine.generate(request_of({7}), sink));
  ASSERT_TRUE(completion.ok());
  EXPECT_EQ(completion->stop_reason, StopReason::kStopToken);
  EXPECT_EQ(completion->sampled_tokens, 3);
  EXPECT_EQ(completion->text, "five");
  EXPECT_EQ(sink.ids(), (std::vector<int32_t>{8, 5, 2}));
  EXPECT_EQ(sink.tokens[1].log_probability, -1.5f);
  EXPECT_EQ(engine.statistics().sampled_tokens, 3);
  EXPECT_EQ(engine.statistics().running_requests, 0);
}

TEST(ScriptedEngine, SMP_13_MaxTokensCutsExactly) {
  ScriptedEngine engine([](const GenerateRequest&) { return ScriptedAnswer{.tokens = {5, 6, 7}}; });
  SimulatedExecutor executor(1);
  Tokens sink;
  Result<Completion> completion = run(executor, engine.generate(request_of({7}, 1), sink));
  ASSERT_TRUE(completion.ok());
  EXPECT_EQ(completion->stop_reason, StopReason::kLength);
  EXPECT_EQ(sink.ids(), std::vector<int32_t>{5});

  Result<Completion> refused = run(executor, engine.generate(request_of({7}, 0), sink));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().name(), "limit.max_tokens");
}

TEST(ScriptedEngine, TakesVirtualTime) {
  ScriptedEngine engine([](const GenerateRequest&) {
    return ScriptedAnswer{.tokens = {5, 6, 2}, .latency = 10s, .token_interval = 1s};
  });
  SimulatedExecutor executor(1);
  Tokens sink;
  ASSERT_TRUE(run(executor, engine.generate(request_of({7}), sink)).ok());
  EXPECT_EQ(executor.now().time_since_epoch(), 12s);
}

TEST(ScriptedEngine, CancellationKeepsWhatWasAccepted) {
  ScriptedEngine engine([](const GenerateRequest&) {
    return ScriptedAnswer{.tokens = {5, 6, 7, 8, 2}, .token_interval = 10ms};
  });
  SimulatedExecutor executor(1);
  Tokens sink;
  std::optional<Result<Completion>> completion =
      run(executor, with_timeout(25ms, engine.generate(request_of({7}), sink)));
  EXPECT_FALSE(completion.has_value());
  EXPECT_EQ(sink.ids(), (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(engine.statistics().running_requests, 0);
}

TEST(ScriptedEngine, FailsAsTold) {
  ScriptedEngine engine([](const GenerateRequest&) {
    return ScriptedAnswer{
        .tokens = {5}, .failure = Failure{FailureClass::kInfrastructure, "engine_lost", "The engine left."}};
  });
  SimulatedExecutor executor(1);
  Tokens sink;
  Result<Completion> completion = run(executor, engine.generate(request_of({7}), sink));
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.failure().name(), "infrastructure.engine_lost");
  EXPECT_EQ(sink.ids(), std::vector<int32_t>{5});
}

Task<> publish_after(Engine& engine, Duration delay, int64_t version) {
  co_await sleep_for(delay);
  EXPECT_TRUE((co_await engine.publish(test_weights(version))).ok());
}

Task<> generate_across_versions(ScriptedEngine& engine, Tokens& sink) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(publish_after(engine, 15ms, 4));
  EXPECT_TRUE((co_await engine.generate(request_of({7}), sink)).ok());
  co_await scope.join();
}

TEST(ScriptedEngine, WGT_03_StampsEachTokenWithItsVersion) {
  ScriptedEngine engine(
      [](const GenerateRequest&) { return ScriptedAnswer{.tokens = {5, 6, 2}, .token_interval = 10ms}; },
      {.version = 3});
  SimulatedExecutor executor(1);
  Tokens sink;
  run(executor, generate_across_versions(engine, sink));
  ASSERT_EQ(sink.tokens.size(), 3u);
  EXPECT_EQ(sink.tokens[0].version, 3);
  EXPECT_EQ(sink.tokens[1].version, 3);
  EXPECT_EQ(sink.tokens[2].version, 4);
  EXPECT_FALSE(sink.tokens[1].mixed);
  EXPECT_TRUE(sink.tokens[2].mixed);
  Result<Done> stale = run(executor, engine.publish(test_weights(3)));
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.failure().name(), "infrastructure.stale_version");
}

TEST(ScriptedEngine, ScoresOnlyWithAScorer) {
  SimulatedExecutor executor(1);
  ScriptedEngine without([](const GenerateRequest&) { return ScriptedAnswer{}; });
  EXPECT_FALSE(without.capabilities().scoring);
  EXPECT_EQ(run(executor, without.score({1, 2}, 1.0f)).failure().name(), "infrastructure.unsupported");

  ScriptedEngine with([](const GenerateRequest&) { return ScriptedAnswer{}; },
                      {.scorer = [](const std::vector<int32_t>& tokens, float temperature) {
                        return std::vector<float>(tokens.size() - 1, -temperature);
                      }});
  EXPECT_TRUE(with.capabilities().scoring);
  EXPECT_EQ(*run(executor, with.score({1, 2, 3}, 0.5f)), (std::vector<float>{-0.5f, -0.5f}));
}

Task<> generate_one(Engine& engine, int32_t index, int64_t& finished) {
  Tokens sink;
  Result<Completion> completion = co_await engine.generate(request_of({index}), sink);
  if (completion.ok() && sink.ids() == std::vector<int32_t>{index, 2}) ++finished;
}

Task<> generate_many(Engine& engine, int32_t count, int64_t& finished) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (int32_t i = 0; i < count; ++i) scope.spawn(generate_one(engine, i + 3, finished));
  co_await scope.join();
}

TEST(ScriptedEngine, ServesTenThousandAtOnce) {
  ScriptedEngine engine([](const GenerateRequest& request) {
    return ScriptedAnswer{.tokens = {request.tokens[0], 2}, .latency = Duration(request.tokens[0])};
  });
  RealExecutor executor;
  int64_t finished = 0;
  run(executor, generate_many(engine, 10'000, finished));
  EXPECT_EQ(finished, 10'000);
}

}  // namespace
}  // namespace stoker
