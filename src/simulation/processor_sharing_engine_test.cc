#include "simulation/processor_sharing_engine.h"

#include <vector>

#include <gtest/gtest.h>

#include "async/run.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"

namespace stoker {
namespace {

class NoSink final : public TokenSink {
 public:
  void accept(const SampledToken& token) override { versions.push_back(token.version); }
  std::vector<int64_t> versions;
};

WeightsPtr version_one() {
  ModelConfig config;
  config.vocab_size = config.hidden_size = config.head_dim = config.intermediate_size = 8;
  config.num_hidden_layers = config.num_attention_heads = config.num_key_value_heads = 1;
  config.max_position_embeddings = 8;
  auto weights = std::make_shared<Weights>(config);
  weights->set_version(1);
  return weights;
}

Task<> request(Engine* engine, int32_t tokens, double start, double* end, NoSink* sink) {
  co_await sleep_for(from_seconds(start));
  GenerateRequest request{.tokens = {0}};
  request.stop.max_tokens = tokens;
  EXPECT_TRUE(co_await engine->generate(std::move(request), *sink));
  *end = to_seconds((co_await current_executor()).now().time_since_epoch());
}

Task<> publish_at(Engine* engine, double start) {
  co_await sleep_for(from_seconds(start));
  EXPECT_TRUE(co_await engine->publish(version_one()));
}

struct Rig {
  SimulatedExecutor executor{3};
  ProcessorSharingEngine engine{
      {.tokens_per_second = 100, .sequence_tokens_per_second = 60, .publish_seconds = 5}, executor};
  NoSink sink;
  double ends[4] = {};
};

Task<> all(Rig* rig, std::vector<std::pair<int32_t, double>> requests, double publication) {
  Scope scope(co_await current_executor());
  for (size_t i = 0; i < requests.size(); ++i) {
    scope.spawn(request(&rig->engine, requests[i].first, requests[i].second, &rig->ends[i], &rig->sink));
  }
  if (publication >= 0) scope.spawn(publish_at(&rig->engine, publication));
  co_await scope.join();
}

TEST(ProcessorSharingEngine, OneSequenceHasItsOwnLimit) {
  Rig rig;
  run(rig.executor, all(&rig, {{600, 0}}, -1));
  EXPECT_NEAR(rig.ends[0], 10, 1e-6);
  EXPECT_NEAR(rig.engine.generated_tokens(), 600, 1e-3);
}

TEST(ProcessorSharingEngine, SequencesShareTheCapacity) {
  Rig rig;
  // Two at 50 tokens/s until the first ends at 4 s, then 300 tokens at 60 tokens/s.
  run(rig.executor, all(&rig, {{200, 0}, {500, 0}}, -1));
  EXPECT_NEAR(rig.ends[0], 4, 1e-6);
  EXPECT_NEAR(rig.ends[1], 9, 1e-6);
  Rig late;
  // Alone for 1 s at 60, then two at 50: the second ends at 1 + 100 / 50, the first has 40 left, at 60.
  run(late.executor, all(&late, {{200, 0}, {100, 1}}, -1));
  EXPECT_NEAR(late.ends[1], 3, 1e-6);
  EXPECT_NEAR(late.ends[0], 3 + 40.0 / 60, 1e-6);
}

TEST(ProcessorSharingEngine, WeightsStopItAndSequencesGoOn) {
  Rig rig;
  run(rig.executor, all(&rig, {{600, 0}, {60, 20}}, 2));
  EXPECT_NEAR(rig.ends[0], 15, 1e-6);
  EXPECT_EQ(rig.sink.versions, (std::vector<int64_t>{0, 1}));
}

// Publishes at these times; notes when each publication was over.
Task<> publish_all(ProcessorSharingEngine* engine, std::vector<double> starts, std::vector<double>* ends) {
  Executor& executor = co_await current_executor();
  for (const double start : starts) {
    co_await sleep_for(from_seconds(start - to_seconds(executor.now().time_since_epoch())));
    EXPECT_TRUE(co_await engine->publish(version_one()));
    ends->push_back(to_seconds(executor.now().time_since_epoch()));
  }
}

// 30 s of contexts: whoever published goes on after 5 s, what is generated after 35. Weights that come before
// that have all contexts computed for themselves.
TEST(ProcessorSharingEngine, ContextsAreRecomputedUnderWeightsThatServe) {
  for (const auto& [starts, end] : {std::pair{std::vector<double>{2}, 45.0}, {{2, 22}, 65.0}}) {
    SimulatedExecutor executor(3);
    ProcessorSharingEngine engine({.tokens_per_second = 100,
                                   .sequence_tokens_per_second = 60,
                                   .publish_seconds = 5,
                                   .prefill_tokens_per_second = 100},
                                  executor);
    engine.change_contexts(3000);
    NoSink sink;
    double ended = 0;
    std::vector<double> published, expected = starts;
    for (double& time : expected) time += 5;
    const auto both = [](ProcessorSharingEngine* on, std::vector<double> times, std::vector<double>* over,
                         NoSink* tokens, double* at) -> Task<> {
      Scope scope(co_await current_executor());
      scope.spawn(publish_all(on, std::move(times), over));
      scope.spawn(request(on, 600, 0, at, tokens));
      co_await scope.join();
    };
    run(executor, both(&engine, starts, &published, &sink, &ended));
    EXPECT_EQ(published, expected);
    EXPECT_NEAR(ended, end, 1e-6);
  }
}

Task<> cancel_one(Rig* rig) {
  Scope cancelled(co_await current_executor());
  Scope rest(co_await current_executor());
  cancelled.spawn(request(&rig->engine, 1000, 0, &rig->ends[0], &rig->sink));
  rest.spawn(request(&rig->engine, 350, 0, &rig->ends[1], &rig->sink));
  co_await sleep_for(from_seconds(1));
  cancelled.cancel();
  co_await cancelled.join();
  co_await rest.join();
}

TEST(ProcessorSharingEngine, CancellingFreesTheShare) {
  Rig rig;
  run(rig.executor, cancel_one(&rig));
  EXPECT_EQ(rig.ends[0], 0);
  EXPECT_NEAR(rig.ends[1], 1 + 300.0 / 60, 1e-6);
}

}  // namespace
}  // namespace stoker
