#include "engine/process_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/run.h"
#include "async/sleep.h"
#include "base/error.h"
#include "base/testing/test_folder.h"
#include "engine/engine_server.h"
#include "engine/native_engine_test_support.h"
#include "engine/routed_engine.h"
#include "io/testing/scripted_process.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;
using testing::ProcessScript;
using testing::ScriptedLauncher;
using testing::ScriptedProcess;

// Children on the simulated loop, each with a native engine. What a killed one still computes reaches nobody.
class Children {
 public:
  Children(SimulatedExecutor& executor, ComputePool& compute, Pool& blocking)
      : executor_(executor), compute_(compute), blocking_(blocking) {}

  std::unique_ptr<ProcessScript> start();
  void kill_last() {
    if (last_ != nullptr) last_->end({.signal = 9});
  }
  // Of all that were ever started; the last call.
  Task<> finish() {
    for (const std::unique_ptr<EngineServer>& server : servers_) co_await server->finish();
  }

  bool silent = false;  // says nothing any more
  // What a broken child says instead of a line.
  std::function<std::string(const std::string& line)> spoil;
  int cancels = 0;  // that reached a child

 private:
  class Child;
  SimulatedExecutor& executor_;
  ComputePool& compute_;
  Pool& blocking_;
  ScriptedProcess* last_ = nullptr;
  std::vector<std::unique_ptr<EngineServer>> servers_;
};

class Children::Child final : public ProcessScript {
 public:
  explicit Child(Children& all) : all_(all) {}
  ~Child() override {
    *alive_ = false;
    if (all_.last_ == process_) all_.last_ = nullptr;
  }
  void started(ScriptedProcess& process) override {
    process_ = all_.last_ = &process;
    const auto make = [&all = all_](const EngineStart& start, const WeightsPtr& weights) {
      return std::make_shared<NativeEngine>(all.executor_, all.compute_, weights, start.options);
    };
    const auto write = [&process, alive = alive_, &all = all_](const std::string& line) {
      if (*alive && !all.silent) process.say(all.spoil ? all.spoil(line) : line);
    };
    all_.servers_.push_back(std::make_unique<EngineServer>(all_.executor_, all_.blocking_, make, write));
    server_ = all_.servers_.back().get();
  }
  void line(ScriptedProcess&, std::string_view text) override {
    all_.cancels += text.find("\"cancel\"") != std::string_view::npos;
    server_->take(text);
  }

 private:
  Children& all_;
  ScriptedProcess* process_ = nullptr;
  EngineServer* server_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::unique_ptr<ProcessScript> Children::start() { return std::make_unique<Child>(*this); }

struct ChildWorld {
  explicit ChildWorld(uint64_t seed) : executor(seed) {}

  ProcessEngineOptions options() const {
    return {.command = {"scripted"}, .start = {.config = test_model_config(), .options = {.max_batch = 8}}};
  }

  SimulatedExecutor executor;
  ComputePool compute{1};
  Pool blocking;
  TestFolder folder;
  WeightsFiles files{folder / "weights", blocking};
  Children children{executor, compute, blocking};
  ScriptedLauncher launcher{executor, [this](int) { return children.start(); }};
};

class ProcessMaker final : public ReplicaMaker {
 public:
  explicit ProcessMaker(ChildWorld& world) : world_(world) {}
  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    return ProcessEngine::start(world_.executor, world_.launcher, world_.files, world_.options(),
                                std::move(weights));
  }
  std::string name() const override { return "engine in a process"; }

 private:
  ChildWorld& world_;
};

class NativeMaker final : public ReplicaMaker {
 public:
  explicit NativeMaker(ChildWorld& world) : world_(world) {}
  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    co_return std::shared_ptr<ReplicaEngine>(std::make_shared<NativeEngine>(
        world_.executor, world_.compute, weights, NativeEngineOptions{.max_batch = 8}));
  }
  std::string name() const override { return "engine here"; }

 private:
  ChildWorld& world_;
};

// Plays `body(world, engine, arguments...)` with one child, and ends everything.
template <typename Body, typename... Arguments>
Task<> with_child(ChildWorld* world, Body body, Arguments... arguments) {
  auto started = co_await ProcessEngine::start(world->executor, world->launcher, world->files,
                                               world->options(), test_weights(3));
  std::exception_ptr failure;
  try {
    co_await body(*world, static_cast<ProcessEngine&>(**started), arguments...);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await (*started)->close();
  co_await world->children.finish();
  if (failure) std::rethrow_exception(failure);
}

TEST(ProcessEngine, GivesTheBitsOfAnEngineHere) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = grouped_requests(21, 4);
  const std::vector<Outcome> expected = alone(requests, weights);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    ChildWorld world(seed);
    std::vector<Outcome> outcomes;
    std::vector<float> scores;
    const auto body = [](ChildWorld&, ProcessEngine& engine, std::vector<GenerateRequest> all,
                         std::vector<Outcome>* into, std::vector<float>* scored) -> Task<> {
      EXPECT_EQ(engine.version(), 3);
      EXPECT_TRUE(engine.capabilities().exact_log_probabilities);
      *into = co_await generate_all(engine, std::move(all));
      *scored = *co_await engine.score({1, 2, 3, 4}, 0.7f);
    };
    run(world.executor, with_child(&world, body, requests, &outcomes, &scores));
    expect_same(outcomes, expected);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      for (size_t t = 0; t < outcomes[i].tokens.size(); ++t) {
        EXPECT_EQ(outcomes[i].tokens[t].drawn_log_probability, expected[i].tokens[t].drawn_log_probability);
        EXPECT_EQ(outcomes[i].tokens[t].version, 3);
      }
    }
    SimulatedExecutor executor(1);
    ComputePool pool(1);
    NativeEngine here(executor, pool, weights, {});
    EXPECT_EQ(scores, *run(executor, here.score({1, 2, 3, 4}, 0.7f)));
  }
}

TEST(ProcessEngine, FailuresAndErrorsComeOutAsTheyAre) {
  ChildWorld world(1);
  const auto body = [](ChildWorld&, ProcessEngine& engine) -> Task<> {
    TokenRecord sink;
    const Result<Completion> too_long =
        co_await engine.generate({.tokens = std::vector<int32_t>(200, 1), .stop = {.max_tokens = 4}}, sink);
    EXPECT_EQ(too_long.failure().name(), "limit.context_length");
    bool thrown = false;
    try {
      EXPECT_TRUE((co_await engine.generate({.tokens = {99}, .stop = {.max_tokens = 4}}, sink)).ok());
    } catch (const Error& error) {
      thrown = error.kind() == ErrorKind::kInput;
    }
    EXPECT_TRUE(thrown);
    const Result<Done> stale = co_await engine.publish(test_weights(2));
    EXPECT_EQ(stale.failure().name(), "infrastructure.stale_version");
    EXPECT_EQ((co_await engine.commit(9)).failure().name(), "infrastructure.not_prepared");
    EXPECT_TRUE((co_await engine.publish(test_weights(4, 2))).ok());
    EXPECT_EQ(engine.version(), 4);
    EXPECT_FALSE(engine.lost());
  };
  run(world.executor, with_child(&world, body));
}

TEST(ProcessEngine, CancellingReachesTheChild) {
  ChildWorld world(1);
  const auto body = [](ChildWorld& in, ProcessEngine& engine) -> Task<> {
    Outcome outcome, other;
    Scope scope(in.executor);
    scope.spawn(generate_into(engine, {.tokens = {1, 2}, .stop = {.max_tokens = 150}}, outcome));
    while (engine.statistics().sampled_tokens < 3) co_await sleep_for(1ms);
    scope.cancel();
    co_await scope.join();
    EXPECT_TRUE(outcome.cancelled);
    // The next request finds the child without the cancelled one.
    co_await generate_into(engine, {.tokens = {3}, .stop = {.max_tokens = 3}}, other);
    EXPECT_TRUE(other.completion.has_value());
    EXPECT_EQ(in.children.cancels, 1);
    EXPECT_LT(engine.statistics().sampled_tokens, 150);
    EXPECT_EQ(engine.statistics().running_requests, 0);
  };
  run(world.executor, with_child(&world, body));
}

TEST(ProcessEngine, AKilledChildIsALostEngine) {
  ChildWorld world(1);
  const auto body = [](ChildWorld& in, ProcessEngine& engine) -> Task<> {
    int told = 0;
    engine.when_lost([&told] { ++told; });
    Outcome outcome;
    Scope scope(in.executor);
    scope.spawn(generate_into(engine, {.tokens = {1, 2}, .stop = {.max_tokens = 150}}, outcome));
    while (engine.statistics().sampled_tokens < 3) co_await sleep_for(1ms);
    in.children.kill_last();
    co_await scope.join();
    EXPECT_TRUE(engine.lost());
    EXPECT_EQ(told, 1);
    EXPECT_EQ(outcome.failure->name(), "infrastructure.engine_lost");
    EXPECT_GE(outcome.tokens.size(), 3) << "the sink keeps what was accepted";
    TokenRecord sink;
    const auto later = co_await engine.generate({.tokens = {1}, .stop = {.max_tokens = 1}}, sink);
    EXPECT_EQ(later.failure().name(), "infrastructure.engine_lost");
    EXPECT_EQ((co_await engine.publish(test_weights(9))).failure().name(), "infrastructure.engine_lost");
  };
  run(world.executor, with_child(&world, body));
}

TEST(ProcessEngine, AChildThatHangsIsFoundByItsSilence) {
  ChildWorld world(1);
  const auto body = [](ChildWorld& in, ProcessEngine& engine) -> Task<> {
    co_await sleep_for(10min);
    EXPECT_FALSE(engine.lost()) << "it answers pings";
    in.children.silent = true;
    Outcome outcome;
    co_await generate_into(engine, {.tokens = {1, 2}, .stop = {.max_tokens = 150}}, outcome);
    EXPECT_EQ(outcome.failure->name(), "infrastructure.engine_lost");
    EXPECT_NE(engine.lost_reason().find("said nothing"), std::string::npos);
  };
  run(world.executor, with_child(&world, body));
}

TEST(ProcessEngine, AChildThatSaysNothingWhileItStartsIsHung) {
  ChildWorld world(1);
  world.children.silent = true;
  const auto start = [](ChildWorld* in) -> Task<> {
    const auto started =
        co_await ProcessEngine::start(in->executor, in->launcher, in->files, in->options(), test_weights(3));
    EXPECT_FALSE(started.ok());
    EXPECT_NE(started.failure().message.find("said nothing"), std::string::npos);
    co_await in->children.finish();
  };
  run(world.executor, start(&world));
  EXPECT_EQ(world.launcher.running(), 0);
}

// Replaces the first `what` of a line, and tells of it.
std::function<std::string(const std::string&)> spoiler(int* spoiled, std::string what, std::string by) {
  return [=](const std::string& line) {
    const size_t at = line.find(what);
    if (at == std::string::npos || (*spoiled)++ > 0) return line;
    return by.empty() ? "{" + line : line.substr(0, at) + by + line.substr(at + what.size());
  };
}

// A child that lives and is broken costs what a killed one costs.
TEST(RoutedProcessEngines, WhatIsBrokenIsReplacedAndGivesTheSameTokens) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = grouped_requests(33, 2);
  const std::vector<Outcome> expected = alone(requests, weights);
  const std::pair<std::string, std::string> breaks[] = {
      {R"("result":{"stop_reason")",
       R"("error":{"kind":"internal","message":"Broken."},"no":{"stop_reason")"},
      {R"("result":{"stop_reason")", R"("error":{"kind":"resource","message":"No."},"no":{"stop_reason")"},
      {R"("result":{"stop_reason")", R"("error":{"message":"Broken."},"no":{"stop_reason")"},
      {R"("result":{"stop_reason":)", R"("result":{"stop_reason":1)"},
      {R"("result":{"stop_reason")", R"("result":{"reason")"},
      {R"("sampled_tokens":)", R"("sampled_tokens":1)"},
      {R"("tokens":[[)", R"("tokens":[[1,99,0,3,0,0,[]],[)"},
      {R"("tokens":[[)", R"("tokens":[[1],[)"},
      {R"("statistics":[)", R"("statistics":[],"no":[)"},
      {R"("tokens":[[)", ""}};
  for (const auto& [what, by] : breaks) {
    SCOPED_TRACE(what + " -> " + by);
    ChildWorld world(1);
    int spoiled = 0;
    std::vector<std::unique_ptr<ReplicaMaker>> makers;
    makers.push_back(std::make_unique<ProcessMaker>(world));
    std::string reason;
    RoutedEngine engine(world.executor, std::move(makers),
                        {.on_loss = [&](const auto&, const auto& why) { reason = why; }});
    std::vector<Outcome> outcomes;
    const auto body = [](ChildWorld* in, RoutedEngine* routed, WeightsPtr first,
                         std::vector<GenerateRequest> all, std::vector<Outcome>* into,
                         std::function<std::string(const std::string&)> spoil) -> Task<> {
      co_await routed->open(std::move(first));
      in->children.spoil = std::move(spoil);
      *into = co_await generate_all(*routed, std::move(all));
      co_await routed->close();
      co_await in->children.finish();
    };
    run(world.executor, body(&world, &engine, weights, requests, &outcomes, spoiler(&spoiled, what, by)));
    EXPECT_GT(spoiled, 0);
    expect_same(outcomes, expected);
    EXPECT_EQ(engine.statistics().lost_engines, 1) << reason;
    EXPECT_NE(reason.find("it "), std::string::npos) << reason;
  }
}

TEST(ProcessEngine, AnswersThatDoNotFitTheirQuestionEndTheChild) {
  const auto lost_by = [](const char* what, const char* by, auto question) {
    ChildWorld world(1);
    bool lost = false;
    int spoiled = 0;
    const auto body = [](ChildWorld& in, ProcessEngine& engine, auto ask,
                         std::function<std::string(const std::string&)> spoil, bool* ends) -> Task<> {
      in.children.spoil = std::move(spoil);
      const auto answer = co_await ask(engine);
      EXPECT_FALSE(answer.ok());
      if (!answer) EXPECT_EQ(answer.failure().name(), "infrastructure.engine_lost");
      *ends = engine.lost();
    };
    run(world.executor, with_child(&world, body, question, spoiler(&spoiled, what, by), &lost));
    return lost;
  };
  const auto score = [](ProcessEngine& engine) { return engine.score({1, 2, 3}, 1); };
  const auto publish = [](ProcessEngine& engine) { return engine.publish(test_weights(4, 2)); };
  EXPECT_TRUE(lost_by(R"("result":[)", R"("result":[7,)", score));
  EXPECT_TRUE(lost_by(R"("result":[)", R"("result":"","no":[)", score));
  EXPECT_TRUE(lost_by(R"("result":{"version":4)", R"("result":{"version":5)", publish));
  EXPECT_TRUE(lost_by(R"("result":{"version":4)", R"("result":{"no":4)", publish));
}

Task<> kill_children(ChildWorld* world, uint64_t seed, const bool* done) {
  RandomStream random({.run_seed = seed, .purpose = RandomPurpose::kSchedule});
  for (int i = 0; i < 6 && !*done; ++i) {
    co_await sleep_for(std::chrono::milliseconds(5 + random.below(60)));
    world->children.kill_last();
  }
}

// One replica in a child that is killed again and again, or that and one here: the tokens are those of one
// engine that nobody kills.
TEST(RoutedProcessEngines, WhatIsKilledGivesTheSameTokens) {
  const WeightsPtr weights = test_weights(3);
  const std::vector<GenerateRequest> requests = grouped_requests(33, 4);
  const std::vector<Outcome> expected = alone(requests, weights);
  int64_t failed_over = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    ChildWorld world(seed);
    std::vector<std::unique_ptr<ReplicaMaker>> makers;
    makers.push_back(std::make_unique<ProcessMaker>(world));
    if (seed % 2 == 1) makers.push_back(std::make_unique<NativeMaker>(world));
    RoutedEngine engine(world.executor, std::move(makers), {.most_losses = 1000});
    std::vector<Outcome> outcomes;
    const auto body = [](ChildWorld* in, RoutedEngine* routed, WeightsPtr first,
                         std::vector<GenerateRequest> all, std::vector<Outcome>* into) -> Task<> {
      co_await routed->open(std::move(first));
      EXPECT_TRUE(routed->capabilities().exact_log_probabilities);
      bool done = false;
      Scope scope(in->executor);
      scope.spawn(kill_children(in, in->executor.seed(), &done));
      *into = co_await generate_all(*routed, std::move(all));
      done = true;
      co_await scope.join();
      co_await routed->close();
      co_await in->children.finish();
    };
    run(world.executor, body(&world, &engine, weights, requests, &outcomes));
    expect_same(outcomes, expected);
    failed_over += engine.statistics().failed_over_requests;
  }
  EXPECT_GT(failed_over, 2);
}

}  // namespace
}  // namespace stoker
