#include "engine/turn_boundary_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <vector>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "async/timeout.h"
#include "engine/engine_test_support.h"
#include "engine/scripted_engine.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

// As many tokens as the request allows, 10 ms each.
ScriptedAnswer token_every_10_ms(const GenerateRequest& request) {
  return {.tokens = std::vector<int32_t>(static_cast<size_t>(request.stop.max_tokens), 5),
          .latency = 10ms,
          .token_interval = 10ms};
}

GenerateRequest request_of(int32_t tokens) { return {.tokens = {1}, .stop = {.max_tokens = tokens}}; }

struct Rig {
  explicit Rig(uint64_t schedule) : executor(schedule) {}
  SimulatedExecutor executor;
  ScriptedEngine scripted{token_every_10_ms, {.publish_latency = 15ms}};
  TurnBoundaryEngine engine{scripted};
  Duration now() const { return executor.now().time_since_epoch(); }
};

Task<> generate_at(Duration start, Engine& engine, int32_t tokens, Outcome& outcome) {
  co_await sleep_for(start);
  co_await generate_into(engine, request_of(tokens), outcome);
}

Task<> publish_at(Duration start, Engine& engine, int64_t version) {
  co_await sleep_for(start);
  EXPECT_TRUE((co_await engine.publish(test_weights(version))).ok());
  EXPECT_GE(engine.version(), version);
}

Task<> turns_and_publications(Scope& scope, RandomStream random, Engine* engine,
                              std::vector<Outcome>* outcomes) {
  for (Outcome& outcome : *outcomes) {
    scope.spawn(
        generate_at(random.below(500) * 1ms, *engine, static_cast<int32_t>(1 + random.below(20)), outcome));
  }
  Duration time{};
  for (int64_t version = 1; version <= 5; ++version) {
    time += 20ms + random.below(100) * 1ms;
    scope.spawn(publish_at(time, *engine, version));
  }
  co_return;
}

TEST(TurnBoundaryEngine, EveryTurnIsOfOneVersionUnderEverySchedule) {
  std::set<int64_t> versions;
  for (uint64_t schedule = 0; schedule < 200; ++schedule) {
    RandomStream random(StreamKey{.run_seed = schedule});
    Rig rig(schedule);
    std::vector<Outcome> outcomes(30);
    run(rig.executor, run_scope(&turns_and_publications, random, &rig.engine, &outcomes));
    EXPECT_EQ(rig.engine.version(), 5);
    EXPECT_EQ(rig.engine.statistics().waiting_requests, 0);
    for (const Outcome& outcome : outcomes) {
      ASSERT_TRUE(outcome.completion.has_value());
      for (const SampledToken& token : outcome.tokens) {
        EXPECT_EQ(token.version, outcome.tokens[0].version);
        EXPECT_FALSE(token.mixed);
        versions.insert(token.version);
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ(versions.size(), 6u);
}

Task<> look_at(Duration time, const Engine& engine, EngineStatistics& statistics) {
  co_await sleep_for(time);
  statistics = engine.statistics();
}

struct Update {
  Outcome before, during;
  EngineStatistics statistics;
};

// One turn of 200 ms, a publication at 50 ms and a turn that comes at 60 ms.
Task<> one_update(Scope& scope, Engine* engine, Update* update) {
  scope.spawn(generate_at(0ms, *engine, 20, update->before));
  scope.spawn(publish_at(50ms, *engine, 1));
  scope.spawn(generate_at(60ms, *engine, 1, update->during));
  scope.spawn(look_at(70ms, *engine, update->statistics));
  co_return;
}

TEST(TurnBoundaryEngine, ANewTurnWaitsForTheUpdateThatWaitsForTheOldOne) {
  Rig rig(1);
  Update update;
  run(rig.executor, run_scope(&one_update, &rig.engine, &update));
  EXPECT_EQ(update.before.tokens.back().version, 0);
  EXPECT_EQ(update.during.tokens.back().version, 1);
  EXPECT_EQ(update.statistics.running_requests, 1);
  EXPECT_EQ(update.statistics.waiting_requests, 1);
  EXPECT_EQ(rig.now(), 200ms + 15ms + 10ms);
}

Task<> publish_for(Engine& engine, Duration start, Duration patience, bool& given_up) {
  co_await sleep_for(start);
  Executor& executor = co_await current_executor();
  given_up =
      !(co_await with_deadline(executor.now() + patience, engine.publish(test_weights(1)))).has_value();
}

struct GivenUp {
  Outcome before, during;
  bool given_up = false;
};

Task<> update_given_up(Scope& scope, Engine* engine, GivenUp* result) {
  scope.spawn(generate_at(0ms, *engine, 20, result->before));
  scope.spawn(publish_for(*engine, 50ms, 30ms, result->given_up));
  scope.spawn(generate_at(60ms, *engine, 1, result->during));
  co_return;
}

TEST(TurnBoundaryEngine, AnUpdateThatIsGivenUpLetsTurnsGoOn) {
  Rig rig(1);
  GivenUp result;
  run(rig.executor, run_scope(&update_given_up, &rig.engine, &result));
  EXPECT_TRUE(result.given_up);
  EXPECT_EQ(result.during.tokens.back().version, 0);
  EXPECT_EQ(rig.engine.version(), 0);
  EXPECT_EQ(rig.now(), 200ms);
}

}  // namespace
}  // namespace stoker
