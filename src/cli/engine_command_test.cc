// Engines in real child processes: the verb `engine serve` behind a ProcessEngine.

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/compute_pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/scope.h"
#include "base/testing/test_folder.h"
#include "engine/engine_test_support.h"
#include "engine/native_engine.h"
#include "engine/process_engine.h"
#include "engine/routed_engine.h"
#include "io/system_process.h"

namespace stoker {
namespace {

// Where in the life of a child it is killed, once; its maker gives engines that kill themselves there.
enum class Moment { kNever, kAtToken, kBeforePrepare, kAfterPrepare, kInCommit };

class MortalEngine final : public ReplicaEngine, private TokenSink {
 public:
  MortalEngine(std::shared_ptr<ReplicaEngine> engine, Moment* moment) : engine_(engine), moment_(moment) {}

  EngineCapabilities capabilities() const override { return engine_->capabilities(); }
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override {
    sink_ = &sink;
    co_return co_await engine_->generate(std::move(request), *this);
  }
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override {
    return engine_->score(std::move(tokens), temperature);
  }
  Task<Result<Done>> publish(WeightsPtr weights) override { return engine_->publish(std::move(weights)); }
  int64_t version() const override { return engine_->version(); }
  EngineStatistics statistics() const override { return engine_->statistics(); }
  Task<Result<Done>> prepare(WeightsPtr weights) override {
    die_at(Moment::kBeforePrepare);
    Result<Done> done = co_await engine_->prepare(std::move(weights));
    die_at(Moment::kAfterPrepare);
    co_return done;
  }
  Task<Result<Done>> commit(int64_t version) override {
    die_at(Moment::kInCommit);
    return engine_->commit(version);
  }
  bool lost() const override { return engine_->lost(); }
  std::string lost_reason() const override { return engine_->lost_reason(); }
  void when_lost(std::function<void()> function) override { engine_->when_lost(std::move(function)); }
  void abandon(const std::string& reason) override { engine_->abandon(reason); }
  bool computes_here() const override { return true; }
  bool takes_masks() const override { return false; }
  Task<> close() override { return engine_->close(); }

 private:
  void started() override { sink_->started(); }
  void accept(const SampledToken& token) override {
    sink_->accept(token);
    if (++tokens_ == 3) die_at(Moment::kAtToken);
  }
  void die_at(Moment moment) {
    if (*moment_ != moment) return;
    *moment_ = Moment::kNever;
    ASSERT_EQ(::kill(static_cast<ProcessEngine&>(*engine_).process_id(), SIGKILL), 0);
  }

  std::shared_ptr<ReplicaEngine> engine_;
  Moment* moment_;
  TokenSink* sink_ = nullptr;  // one request at a time
  int tokens_ = 0;
};

class MortalMaker final : public ReplicaMaker {
 public:
  MortalMaker(Executor& executor, ProcessLauncher& launcher, WeightsFiles& files, Moment* moment)
      : executor_(executor), launcher_(launcher), files_(files), moment_(moment) {}

  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    auto engine = co_await ProcessEngine::start(
        executor_, launcher_, files_,
        {.command = {STOKER_PROGRAM, "engine", "serve"},
         .start = {.config = test_model_config(), .options = {.max_cache_bytes = 1 << 20}}},
        std::move(weights));
    if (!engine) co_return engine.failure();
    co_return std::shared_ptr<ReplicaEngine>(std::make_shared<MortalEngine>(*engine, moment_));
  }
  std::string name() const override { return "engine"; }

 private:
  Executor& executor_;
  ProcessLauncher& launcher_;
  WeightsFiles& files_;
  Moment* moment_;
};

// An answer under the first weights, and one under those published then.
Task<> play(RoutedEngine* engine, std::vector<Outcome>* outcomes) {
  co_await engine->open(test_weights(3));
  co_await generate_into(*engine, {.tokens = {1, 2, 3}, .stop = {.max_tokens = 20}}, (*outcomes)[0]);
  EXPECT_TRUE((co_await engine->publish(test_weights(4, 2))).ok());
  EXPECT_EQ(engine->version(), 4);
  co_await generate_into(*engine, {.tokens = {1, 2, 3}, .stop = {.max_tokens = 20}}, (*outcomes)[1]);
  co_await engine->close();
}

Task<> play_here(NativeEngine* engine, std::vector<Outcome>* outcomes) {
  co_await generate_into(*engine, {.tokens = {1, 2, 3}, .stop = {.max_tokens = 20}}, (*outcomes)[0]);
  EXPECT_TRUE((co_await engine->publish(test_weights(4, 2))).ok());
  co_await generate_into(*engine, {.tokens = {1, 2, 3}, .stop = {.max_tokens = 20}}, (*outcomes)[1]);
  co_await engine->close();
}

class EngineCommand : public testing::TestWithParam<Moment> {};

TEST_P(EngineCommand, ServesTheSameBitsWhereverItsProcessIsKilled) {
  const TestFolder folder;
  RealExecutor executor;
  ComputePool compute(1);
  Pool blocking;
  std::vector<Outcome> expected(2), outcomes(2);
  {
    NativeEngine here(executor, compute, test_weights(3), {.max_cache_bytes = 1 << 20});
    run(executor, play_here(&here, &expected));
  }
  WeightsFiles files(folder / "weights", blocking);
  const std::unique_ptr<ProcessLauncher> launcher = make_system_launcher(executor);
  Moment moment = GetParam();
  std::vector<std::unique_ptr<ReplicaMaker>> makers;
  makers.push_back(std::make_unique<MortalMaker>(executor, *launcher, files, &moment));
  RoutedEngine engine(executor, std::move(makers), {});
  run(executor, play(&engine, &outcomes));

  EXPECT_EQ(moment, Moment::kNever) << "it was killed there";
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(outcomes[i].completion);
    EXPECT_TRUE(same_sample(outcomes[i], expected[i])) << i;
    EXPECT_EQ(outcomes[i].completion->sampled_tokens, expected[i].completion->sampled_tokens);
    for (const SampledToken& token : outcomes[i].tokens) EXPECT_EQ(token.version, i == 0 ? 3 : 4);
  }
  EXPECT_EQ(engine.statistics().lost_engines, GetParam() == Moment::kNever ? 0 : 1);
  // At the token: unless the child had said all before.
  EXPECT_LE(engine.statistics().failed_over_requests, GetParam() == Moment::kAtToken ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Moments, EngineCommand,
                         testing::Values(Moment::kNever, Moment::kAtToken, Moment::kBeforePrepare,
                                         Moment::kAfterPrepare, Moment::kInCommit));

}  // namespace
}  // namespace stoker
