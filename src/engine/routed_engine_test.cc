#include "engine/routed_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "async/cancellation.h"
#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "base/error.h"
#include "engine/engine_test_support.h"
#include "engine/replica_progress.h"
#include "engine/request_check.h"
#include "engine/weights_file.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

int32_t scripted_token(const StreamKey& stream, uint64_t position) {
  return static_cast<int32_t>(1 + random_bits(stream, position)[0] % 1000);
}

// What all scripted replicas of a test share: how they go wrong, and what they were seen to do.
struct World {
  Duration token_interval = 10ms;
  Duration prepare_latency = 5ms;
  Duration commit_latency = 5ms;
  Duration start_latency = 20ms;
  std::function<bool(int replica)> refuses_prepare = [](int) { return false; };
  std::string refusal = "refused";
  std::function<bool(int replica)> hangs_in_commit = [](int) { return false; };
  std::function<bool(int start)> fails_to_start = [](int) { return false; };
  std::function<bool(int replica)> computes_here = [](int) { return false; };
  std::function<bool(int replica)> takes_masks = [](int) { return false; };
  int starts = 0;
  int closed = 0;
  std::map<int, int64_t> served;               // tokens by replica
  std::vector<std::pair<int, int64_t>> swaps;  // replica and version, in order
};

// A replica in virtual time whose tokens follow from stream and position, and which can be killed.
class ScriptedReplica final : public ReplicaEngine {
 public:
  ScriptedReplica(World& world, int index, int64_t version)
      : world_(world), index_(index), version_(version) {}

  EngineCapabilities capabilities() const override { return {.keyed_random_streams = true}; }
  int64_t version() const override { return version_; }
  EngineStatistics statistics() const override {
    return {.sampled_tokens = sampled_, .busy_seconds = 0.5 * static_cast<double>(sampled_)};
  }

  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override {
    if (std::optional<Failure> failure = check_request(request)) co_return *failure;
    // A continued request brings what was sampled before.
    for (uint64_t i = 0; i < request.first_position; ++i) {
      EXPECT_EQ(request.tokens[request.tokens.size() - request.first_position + i],
                scripted_token(request.stream, i));
    }
    sink.started();
    Completion completion{.stop_reason = StopReason::kLength};
    while (completion.sampled_tokens < request.stop.max_tokens) {
      if (!co_await alive_for(world_.token_interval)) co_return gone();
      const uint64_t position = request.first_position + static_cast<uint64_t>(completion.sampled_tokens);
      sink.accept({.id = scripted_token(request.stream, position), .version = version_});
      ++completion.sampled_tokens;
      ++sampled_;
      ++world_.served[index_];
    }
    // The end may be lost although every token came.
    if (!co_await alive_for(1ms)) co_return gone();
    co_return completion;
  }
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float) override {
    if (!co_await alive_for(5ms)) co_return gone();
    co_return std::vector<float>(tokens.size() - 1, -1.0f);
  }
  Task<Result<Done>> publish(WeightsPtr weights) override {
    const Result<Done> ready = co_await prepare(weights);
    if (!ready) co_return ready;
    co_return co_await commit(weights->version());
  }
  Task<Result<Done>> prepare(WeightsPtr weights) override {
    if (!co_await alive_for(world_.prepare_latency)) co_return gone();
    if (world_.refuses_prepare(index_))
      co_return Failure{FailureClass::kInfrastructure, world_.refusal, "No."};
    prepared_ = weights->version();
    co_return Done{};
  }
  Task<Result<Done>> commit(int64_t version) override {
    EXPECT_EQ(version, prepared_);
    if (world_.hangs_in_commit(index_)) co_await alive_for(1h);
    if (!co_await alive_for(world_.commit_latency)) co_return gone();
    version_ = version;
    world_.swaps.emplace_back(index_, version);
    co_return Done{};
  }

  bool lost() const override { return !reason_.empty(); }
  std::string lost_reason() const override { return reason_; }
  void when_lost(std::function<void()> function) override { when_lost_ = std::move(function); }
  void abandon(const std::string& reason) override {
    if (lost()) return;
    reason_ = reason;
    end_.request(CancelReason::kShutdown);
    if (when_lost_) std::exchange(when_lost_, nullptr)();
  }
  bool computes_here() const override { return world_.computes_here(index_); }
  bool takes_masks() const override { return world_.takes_masks(index_); }
  Task<> close() override {
    abandon("closed");
    ++world_.closed;
    co_return;
  }

 private:
  // False: it was lost meanwhile.
  Task<bool> alive_for(Duration duration) {
    const CancellationToken outer = co_await current_cancellation();
    try {
      co_await with_cancellation(end_.token(), sleep_for(duration));
    } catch (const Cancelled&) {
      outer.throw_if_requested();
    }
    co_return !lost();
  }
  Failure gone() const { return {FailureClass::kInfrastructure, "engine_lost", reason_}; }

  World& world_;
  int index_;
  int64_t version_;
  int64_t prepared_ = -1;
  int64_t sampled_ = 0;
  std::string reason_;
  CancellationSource end_;
  std::function<void()> when_lost_;
};

class ScriptedMaker final : public ReplicaMaker {
 public:
  ScriptedMaker(World& world, int index) : world_(world), index_(index) {}

  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    const int start = world_.starts++;
    co_await sleep_for(world_.start_latency);
    if (world_.fails_to_start(start))
      co_return Failure{FailureClass::kInfrastructure, "spawn", "No program."};
    last = std::make_shared<ScriptedReplica>(world_, index_, weights->version());
    co_return std::shared_ptr<ReplicaEngine>(last);
  }
  std::string name() const override { return "engine " + std::to_string(index_); }

  std::shared_ptr<ScriptedReplica> last;

 private:
  World& world_;
  int index_;
};

WeightsPtr version(int64_t number) {
  auto weights = std::make_shared<Weights>(test_model_config());
  weights->set_version(number);
  return weights;
}

// A routed engine over scripted replicas.
struct Routed {
  Routed(SimulatedExecutor& executor, World& world, int replicas, RoutedEngineOptions options = {}) {
    std::vector<std::unique_ptr<ReplicaMaker>> owned;
    for (int i = 0; i < replicas; ++i) {
      owned.push_back(std::make_unique<ScriptedMaker>(world, i));
      makers.push_back(static_cast<ScriptedMaker*>(owned.back().get()));
    }
    options.on_publication = [this](const PublicationReport& report) { reports.push_back(report); };
    engine = std::make_unique<RoutedEngine>(executor, std::move(owned), options);
  }
  void kill(int replica) {
    if (makers[static_cast<size_t>(replica)]->last) {
      makers[static_cast<size_t>(replica)]->last->abandon("it was ended by signal 9");
    }
  }
  std::vector<ScriptedMaker*> makers;
  std::unique_ptr<RoutedEngine> engine;
  std::vector<PublicationReport> reports;
};

GenerateRequest request_of(uint64_t ordinal, int32_t tokens) {
  return {.tokens = {1, 2, 3}, .stop = {.max_tokens = tokens}, .stream = {.task_ordinal = ordinal}};
}

void expect_whole(const Outcome& outcome, const GenerateRequest& request) {
  ASSERT_TRUE(outcome.completion) << (outcome.failure ? outcome.failure->message : "cancelled");
  EXPECT_EQ(outcome.completion->sampled_tokens, request.stop.max_tokens);
  EXPECT_EQ(outcome.completion->stop_reason, StopReason::kLength);
  ASSERT_EQ(outcome.tokens.size(), static_cast<size_t>(request.stop.max_tokens));
  for (size_t i = 0; i < outcome.tokens.size(); ++i) {
    EXPECT_EQ(outcome.tokens[i].id, scripted_token(request.stream, i)) << i;
  }
}

Task<> close_after(RoutedEngine* engine, Task<> body) {
  std::exception_ptr failure;
  try {
    co_await engine->open(version(0));
    co_await std::move(body);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await engine->close();
  if (failure) std::rethrow_exception(failure);
}

ErrorKind kind_thrown(SimulatedExecutor& executor, Task<> task) {
  try {
    run(executor, std::move(task));
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kInternal;
}

Task<> kill_at_random(Routed* routed, uint64_t seed, int kills) {
  RandomStream random({.run_seed = seed, .purpose = RandomPurpose::kSchedule});
  for (int i = 0; i < kills; ++i) {
    co_await sleep_for(std::chrono::milliseconds(20 + random.below(150)));
    routed->kill(static_cast<int>(random.below(routed->makers.size())));
  }
}

Task<> publish_steps(Routed* routed, int64_t versions) {
  for (int64_t number = 1; number <= versions; ++number) {
    co_await sleep_for(100ms);
    const Result<Done> done = co_await routed->engine->publish(version(number));
    EXPECT_TRUE(done.ok()) << (done ? "" : done.failure().message);
    EXPECT_EQ(routed->engine->version(), number);
    // Whoever takes requests now serves it.
    bool serves = false;
    for (const RoutedEngine::ReplicaState& replica : routed->engine->replicas()) {
      if (replica.serving) EXPECT_EQ(replica.version, number);
      serves = serves || replica.serving;
    }
    EXPECT_TRUE(serves);
  }
}

Task<> storm(Routed* routed, uint64_t seed, std::vector<GenerateRequest> requests,
             std::vector<Outcome>* outcomes) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(kill_at_random(routed, seed, 8), "kills");
  scope.spawn(publish_steps(routed, 4), "publications");
  *outcomes = co_await generate_all(*routed->engine, std::move(requests));
  co_await scope.join();
}

// Replicas die in the middle of decoding, of preparing, of committing and of starting: every request ends
// with the tokens it would have had, and every publication leaves no replica in the routing on another
// version.
TEST(RoutedEngine, LosesNoRequestAndServesNoOldVersionWhoeverIsKilledWhen) {
  int64_t failed_over = 0, lost = 0;
  std::map<PublicationOutcome, int> outcomes_seen;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SimulatedExecutor executor(seed);
    World world;
    RandomStream random({.run_seed = seed});
    world.hangs_in_commit = [&random](int) { return random.below(12) == 0; };
    Routed routed(executor, world, 1 + static_cast<int>(seed % 3),
                  {.commit_limit = 50ms, .most_losses = 1000});
    std::vector<GenerateRequest> requests;
    for (uint64_t i = 0; i < 12; ++i) {
      requests.push_back(request_of(i / 4, 1 + static_cast<int32_t>(random.below(60))));
      requests.back().stream.sample = static_cast<uint32_t>(i % 4);
    }
    std::vector<Outcome> outcomes;
    run(executor, close_after(routed.engine.get(), storm(&routed, seed, requests, &outcomes)));
    ASSERT_EQ(outcomes.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) expect_whole(outcomes[i], requests[i]);
    const EngineStatistics statistics = routed.engine->statistics();
    failed_over += statistics.failed_over_requests;
    lost += statistics.lost_engines;
    for (const PublicationReport& report : routed.reports) ++outcomes_seen[report.outcome];
    EXPECT_EQ(statistics.publications_committed + statistics.publications_aborted +
                  statistics.publications_partly_committed + statistics.publications_unknown,
              static_cast<int64_t>(routed.reports.size()));
  }
  EXPECT_GT(failed_over, 20);
  EXPECT_GT(lost, 20);
  for (const PublicationOutcome outcome :
       {PublicationOutcome::kCommitted, PublicationOutcome::kAborted, PublicationOutcome::kPartlyCommitted,
        PublicationOutcome::kUnknown}) {
    EXPECT_GT(outcomes_seen[outcome], 0) << to_string(outcome);
  }
}

TEST(RoutedEngine, SharesRequestsAndKeepsAGroupTogether) {
  SimulatedExecutor executor(1);
  World world;
  Routed routed(executor, world, 2);
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 8; ++i) requests.push_back(request_of(i / 4, 10));
  std::vector<Outcome> outcomes;
  const auto body = [](Routed* engine, std::vector<GenerateRequest> all,
                       std::vector<Outcome>* into) -> Task<> {
    *into = co_await generate_all(*engine->engine, std::move(all));
  };
  run(executor, close_after(routed.engine.get(), body(&routed, requests, &outcomes)));
  EXPECT_EQ(world.served[0], 40);
  EXPECT_EQ(world.served[1], 40);
  EXPECT_EQ(routed.engine->statistics().sampled_tokens, 80);
  EXPECT_EQ(routed.engine->statistics().busy_seconds, 20) << "the mean: each was busy for so long";
}

// Two that compute in turn and one of its own: 0.5 s a token, all tokens of a group at one replica.
TEST(RoutedEngine, IsBusyAsItsProcessesAre) {
  SimulatedExecutor executor(1);
  World world;
  world.computes_here = [](int replica) { return replica < 2; };
  Routed routed(executor, world, 3);
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 12; ++i) requests.push_back(request_of(i / 4, 10));
  std::vector<Outcome> outcomes;
  const auto body = [](Routed* engine, std::vector<GenerateRequest> all,
                       std::vector<Outcome>* into) -> Task<> {
    *into = co_await generate_all(*engine->engine, std::move(all));
  };
  run(executor, close_after(routed.engine.get(), body(&routed, requests, &outcomes)));
  EXPECT_EQ(routed.engine->statistics().sampled_tokens, 120);
  EXPECT_EQ(routed.engine->statistics().busy_seconds, 0.5 * 120 / 2);
}

TEST(RoutedEngine, ARefusalOfAllIsAFailureAndChangesNothing) {
  SimulatedExecutor executor(1);
  World world;
  world.refuses_prepare = [](int) { return true; };
  Routed routed(executor, world, 2);
  const auto body = [](Routed* engine) -> Task<> {
    const Result<Done> refused = co_await engine->engine->publish(version(1));
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(refused.failure().name(), "infrastructure.refused");
    EXPECT_EQ(engine->engine->version(), 0);
    for (const RoutedEngine::ReplicaState& replica : engine->engine->replicas()) {
      EXPECT_TRUE(replica.serving);
      EXPECT_EQ(replica.version, 0);
    }
  };
  run(executor, close_after(routed.engine.get(), body(&routed)));
  ASSERT_EQ(routed.reports.size(), 1);
  EXPECT_EQ(routed.reports[0].outcome, PublicationOutcome::kAborted);
  EXPECT_EQ(world.starts, 2) << "nobody was replaced";
}

TEST(RoutedEngine, AFullDiskIsTheMachinesDoing) {
  SimulatedExecutor executor(1);
  World world;
  world.refuses_prepare = [](int) { return true; };
  world.refusal = WeightsFiles::kRefused;
  Routed routed(executor, world, 2);
  const auto body = [](Routed* engine) -> Task<> {
    EXPECT_TRUE((co_await engine->engine->publish(version(1))).ok());
  };
  EXPECT_EQ(kind_thrown(executor, close_after(routed.engine.get(), body(&routed))), ErrorKind::kResource);
}

TEST(RoutedEngine, WhatNoReplicaTakesInTimeIsTheMachinesDoing) {
  SimulatedExecutor executor(1);
  World world;
  world.prepare_latency = 1h;
  Routed routed(executor, world, 2, {.prepare_limit = 1s, .most_losses = 1000});
  const auto body = [](Routed* engine) -> Task<> {
    EXPECT_TRUE((co_await engine->engine->publish(version(1))).ok());
  };
  EXPECT_EQ(kind_thrown(executor, close_after(routed.engine.get(), body(&routed))), ErrorKind::kResource);
}

// The one that refuses takes no requests, is replaced since it goes on refusing, and its replacement serves.
TEST(RoutedEngine, OneThatIsLeftOutCatchesUpBeforeItServes) {
  SimulatedExecutor executor(1);
  World world;
  bool refuse = true;
  world.refuses_prepare = [&refuse](int replica) { return refuse && replica == 1; };
  Routed routed(executor, world, 2);
  const auto body = [](Routed* engine, World* of, bool* refuses) -> Task<> {
    EXPECT_TRUE((co_await engine->engine->publish(version(1))).ok());
    EXPECT_EQ(engine->engine->version(), 1);
    EXPECT_FALSE(engine->engine->replicas()[1].serving);
    *refuses = false;
    co_await sleep_for(1s);
    EXPECT_TRUE(engine->engine->replicas()[1].serving);
    EXPECT_EQ(engine->engine->replicas()[1].version, 1);
    EXPECT_TRUE((co_await engine->engine->publish(version(2))).ok());
    EXPECT_EQ(engine->engine->replicas()[1].version, 2);
    EXPECT_FALSE((co_await engine->engine->publish(version(1))).ok()) << "versions do not go back";
  };
  run(executor, close_after(routed.engine.get(), body(&routed, &world, &refuse)));
  ASSERT_EQ(routed.reports.size(), 2);
  EXPECT_EQ(routed.reports[0].outcome, PublicationOutcome::kPartlyCommitted);
  EXPECT_EQ(routed.reports[1].outcome, PublicationOutcome::kCommitted);
}

TEST(RoutedEngine, OneInDoubtIsEndedAndReplaced) {
  SimulatedExecutor executor(1);
  World world;
  world.hangs_in_commit = [&world](int replica) { return replica == 0 && world.starts == 2; };
  Routed routed(executor, world, 2, {.commit_limit = 1s});
  const auto body = [](Routed* engine) -> Task<> {
    EXPECT_TRUE((co_await engine->engine->publish(version(1))).ok());
    co_await sleep_for(1s);
    EXPECT_TRUE(engine->engine->replicas()[0].serving);
    EXPECT_EQ(engine->engine->replicas()[0].version, 1);
  };
  run(executor, close_after(routed.engine.get(), body(&routed)));
  ASSERT_EQ(routed.reports.size(), 1);
  EXPECT_EQ(routed.reports[0].outcome, PublicationOutcome::kUnknown);
  EXPECT_EQ(world.starts, 3);
}

TEST(RoutedEngine, GivesUpWhatDiesOverAndOver) {
  SimulatedExecutor executor(1);
  World world;
  world.fails_to_start = [](int start) { return start > 0; };
  Routed routed(executor, world, 1, {.most_losses = 3});
  const auto body = [](Routed* engine) -> Task<> {
    engine->kill(0);
    TokenRecord sink;
    EXPECT_TRUE((co_await engine->engine->generate(request_of(1, 5), sink)).ok());
  };
  try {
    run(executor, close_after(routed.engine.get(), body(&routed)));
    ADD_FAILURE() << "a request was served by nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
  }
  EXPECT_EQ(world.starts, 3);
}

// The disk is full, say, when a loss is to be written down: whoever waits for the replica is told, and its
// engine was closed before.
TEST(RoutedEngine, ALossThatCannotBeToldIsThrownAtWhoWaits) {
  SimulatedExecutor executor(1);
  World world;
  int closed_when_told = -1;
  const auto tell = [&](const std::string&, const std::string&) {
    closed_when_told = world.closed;
    throw resource_error("The disk is full.");
  };
  Routed routed(executor, world, 2, {.on_loss = tell});
  const auto body = [](Routed* engine) -> Task<> {
    Scope scope(co_await current_executor());
    Outcome outcome;
    scope.spawn(generate_into(*engine->engine, request_of(1, 100), outcome));
    co_await sleep_for(100ms);
    engine->kill(0);
    std::string told;
    try {
      co_await scope.join();
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_EQ(told, "The disk is full.");
    told.clear();
    try {
      EXPECT_TRUE((co_await engine->engine->publish(version(1))).ok());
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_EQ(told, "The disk is full.");
  };
  run(executor, close_after(routed.engine.get(), body(&routed)));
  EXPECT_EQ(closed_when_told, 1);
  EXPECT_EQ(world.closed, 2) << "and the other one at the end";
}

class AnyToken final : public TokenMask {
 public:
  void forbid(std::span<const int32_t>, int32_t, std::span<uint8_t>) const override {}
};

// It waits for the replica that takes masks as long as there may be one.
TEST(RoutedEngine, AMaskedRequestIsLookedAtAgainWhenItMoves) {
  for (const bool comes_back : {true, false}) {
    SimulatedExecutor executor(1);
    World world;
    world.takes_masks = [](int replica) { return replica == 0; };
    world.fails_to_start = [comes_back](int start) { return !comes_back && start > 1; };
    Routed routed(executor, world, 2, {.most_losses = 3});
    GenerateRequest request = request_of(1, 50);
    request.mask = std::make_shared<AnyToken>();
    Outcome outcome;
    const auto body = [](Routed* engine, GenerateRequest masked, Outcome* into) -> Task<> {
      Scope scope(co_await current_executor());
      scope.spawn(generate_into(*engine->engine, masked, *into));
      co_await sleep_for(100ms);
      engine->kill(0);
      co_await scope.join();
    };
    run(executor, close_after(routed.engine.get(), body(&routed, request, &outcome)));
    EXPECT_EQ(world.served[1], 0);
    if (comes_back) {
      expect_whole(outcome, request);
    } else {
      ASSERT_TRUE(outcome.failure);
      EXPECT_EQ(outcome.failure->name(), "infrastructure.unsupported");
    }
  }
}

TEST(RoutedEngine, WhatCannotStartIsToldAtOnce) {
  SimulatedExecutor executor(1);
  World world;
  world.fails_to_start = [](int start) { return start == 1; };
  Routed routed(executor, world, 2);
  const auto body = []() -> Task<> { co_return; };
  EXPECT_THROW(run(executor, close_after(routed.engine.get(), body())), Error);
}

TEST(RoutedEngine, CancellingAndClosingEndRequests) {
  SimulatedExecutor executor(1);
  World world;
  Routed routed(executor, world, 1);
  Outcome cancelled, closed;
  const auto body = [](Routed* engine, Outcome* first, Outcome* second) -> Task<> {
    Executor& loop = co_await current_executor();
    Scope one(loop), other(loop);
    one.spawn(generate_into(*engine->engine, request_of(1, 1000), *first));
    other.spawn(generate_into(*engine->engine, request_of(2, 1000), *second));
    co_await sleep_for(100ms);
    one.cancel();
    co_await one.join();
    EXPECT_EQ(engine->engine->replicas()[0].requests, 1);
    co_await engine->engine->close();
    co_await other.join();
  };
  run(executor, close_after(routed.engine.get(), body(&routed, &cancelled, &closed)));
  EXPECT_TRUE(cancelled.cancelled);
  ASSERT_TRUE(closed.failure);
  EXPECT_EQ(closed.failure->name(), "infrastructure.shut_down");
  EXPECT_GE(closed.tokens.size(), 5);
}

// A whole answer cut at any token and continued ends as it would have.
TEST(ReplicaProgress, AnAnswerInPartsEndsAsInOne) {
  const TokenizerPtr tokenizer = Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "test");
  const std::vector<int32_t> answer = tokenizer->encode("one plus two is three, is it not");
  const Failure lost{FailureClass::kInfrastructure, "engine_lost", ""};
  ASSERT_GT(answer.size(), 8);
  for (size_t cut = 0; cut <= answer.size(); ++cut) {
    TokenRecord sink;
    GenerateRequest request{.tokens = {5, 6},
                            .stop = {.max_tokens = static_cast<int32_t>(answer.size()) + 5,
                                     .strings = {tokenizer->decode(std::span(answer).last(3))}}};
    ReplicaProgress progress(request, sink, tokenizer.get());
    EXPECT_EQ(progress.rest().tokens, request.tokens);
    progress.started();
    for (size_t i = 0; i < cut; ++i) progress.accept({.id = answer[i]});
    const std::optional<Completion> complete = progress.complete(lost);
    ASSERT_EQ(complete.has_value(), cut == answer.size()) << cut;
    Completion whole;
    if (complete) {
      whole = *complete;
    } else {
      const GenerateRequest rest = progress.rest();
      EXPECT_EQ(rest.first_position, cut);
      EXPECT_EQ(rest.stop.max_tokens, request.stop.max_tokens - static_cast<int32_t>(cut));
      EXPECT_EQ(rest.tokens.size(), 2 + cut);
      progress.started();
      for (size_t i = cut; i < answer.size(); ++i) progress.accept({.id = answer[i]});
      const auto part = static_cast<int32_t>(answer.size() - cut);
      whole = progress.whole({StopReason::kStopString, part, 0, "of this part alone"});
      if (cut == 0) continue;  // it was in one part
    }
    EXPECT_EQ(whole.stop_reason, StopReason::kStopString);
    EXPECT_EQ(whole.sampled_tokens, static_cast<int32_t>(answer.size()));
    EXPECT_EQ(whole.text + request.stop.strings[0], tokenizer->decode(answer));
  }
}

}  // namespace
}  // namespace stoker
