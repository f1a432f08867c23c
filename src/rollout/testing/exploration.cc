#include "rollout/testing/exploration.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "async/run.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "base/random.h"
#include "engine/routed_engine.h"
#include "engine/scripted_engine.h"
#include "environment/testing/faulty_environment.h"
#include "environment/testing/test_pool.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "rollout/event_log.h"
#include "rollout/latency_law.h"
#include "rollout/orchestrator.h"
#include "rollout/testing/decision_books.h"
#include "rollout/testing/fake_run.h"
#include "rollout/testing/losable_engine.h"
#include "text/chatml_renderer.h"
#include "text/testing/tokenizers.h"

namespace stoker::testing {
namespace {

constexpr int32_t kTurns = 3;

// What is the same in every run.
struct Language {
  TokenizerPtr tokenizer = demo_tokenizer();
  ChatMlRenderer renderer{tokenizer, {.list_tools = false}};
  std::vector<int32_t> say = tokenizer->encode_with_special("say<|im_end|>");
  std::vector<int32_t> call = tokenizer->encode_with_special(
      "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call><|im_end|>");
};
const Language& language() {
  static const Language language;
  return language;
}

// How a run is cut short, at `moment`.
enum class Interruption { kNone, kStop, kCancel, kTrainingFails };

struct Plan {
  explicit Plan(uint64_t seed);

  double seconds(uint64_t purpose, uint64_t a, uint64_t b, double mean) const;
  FaultPlan faults(uint64_t ordinal, int32_t nth) const;
  ScriptedAnswer answer(const GenerateRequest& request) const;
  RandomStream stream(uint64_t purpose, uint64_t a, uint64_t b) const {
    return RandomStream({.run_seed = seed,
                         .purpose = RandomPurpose::kEnvironment,
                         .task_ordinal = a,
                         .sample = static_cast<uint32_t>(b),
                         .turn = static_cast<uint32_t>(purpose)});
  }

  uint64_t seed;
  ControllerOptions options;
  LatencyLaw law;
  double fault_share = 0;
  bool routed = false;     // two engines, which are lost and replaced, instead of one
  uint64_t poisonous = 0;  // every task whose ordinal is a multiple; 0: none
  Interruption interruption = Interruption::kNone;
  Duration moment{0};
};

LatencyLaw draw_law(RandomStream& random) {
  static constexpr std::array kKinds = {"constant", "lognormal", "pareto", "bimodal"};
  LatencyLaw law{.kind = kKinds[random.below(kKinds.size())]};
  law.cv = 0.5 * static_cast<double>(1 + random.below(4));
  return law;
}

Plan::Plan(uint64_t run_seed) : seed(run_seed), options(random_options(run_seed)) {
  RandomStream random = stream(0, 0, 0);
  options.total_steps = 3 + static_cast<int64_t>(random.below(2));
  options.groups_per_batch = options.group_size = 4;
  options.max_concurrent_episodes = 4 + static_cast<int32_t>(random.below(45));
  options.min_scored = 1 + static_cast<int32_t>(random.below(4));
  options.max_consecutive_drops = random.below(4) == 0 ? 3 : 16;
  if (random.below(64) == 0) {  // long enough for a depth to be found
    options.adaptive_depth = true;
    options.extra_groups = 0;
    options.total_steps = 24;
    options.max_ahead = 2 + static_cast<int32_t>(random.below(3));
  }
  law = draw_law(random);
  static constexpr std::array kShares = {0.0, 0.01, 0.04, 0.15};
  fault_share = kShares[random.below(kShares.size())];
  routed = random.below(3) == 0;
  if (random.below(4) == 0) poisonous = 2 + random.below(9);
  if (random.below(5) < 2) {
    interruption = static_cast<Interruption>(1 + random.below(3));
    moment = from_seconds(std::exp(8 * random.uniform() - 2));
  }
}

double Plan::seconds(uint64_t purpose, uint64_t a, uint64_t b, double mean) const {
  RandomStream random = stream(purpose, a, b);
  return mean * draw_scale(law, [&] { return random.uniform(); });
}

FaultPlan Plan::faults(uint64_t ordinal, int32_t nth) const {
  const auto attempt = static_cast<uint64_t>(nth);
  FaultPlan plan{
      .step = Fault::kSleep, .turns = kTurns, .delay = from_seconds(seconds(1, ordinal, attempt, 4))};
  RandomStream random = stream(2, ordinal, attempt);
  for (Fault* place : {&plan.reset, &plan.step, &plan.tool, &plan.close, &plan.reward}) {
    if (random.uniform() >= fault_share) continue;
    *place = static_cast<Fault>(1 + random.below(6));  // all but kBlock
    plan.step_turn = static_cast<int32_t>(random.below(kTurns));
  }
  if (poisonous > 0 && ordinal % poisonous == 0) plan.step = Fault::kFail;
  return plan;
}

ScriptedAnswer Plan::answer(const GenerateRequest& request) const {
  const StreamKey& key = request.stream;
  RandomStream random = stream(16 + key.turn, key.task_ordinal, key.sample + 64 * key.attempt);
  ScriptedAnswer answer{.tokens = random.below(4) == 0 ? language().call : language().say,
                        .latency = from_seconds(draw_scale(law, [&] { return random.uniform(); })),
                        .token_interval = std::chrono::milliseconds(10)};
  if (random.uniform() >= fault_share) return answer;
  switch (random.below(3)) {
    case 0:
      answer.failure = Failure{FailureClass::kInfrastructure, "lost", "The engine was lost."};
      break;
    case 1:
      answer.latency = std::chrono::hours(24);  // the reply is lost
      break;
    default:
      answer.tokens.clear();
      answer.failure = Failure{FailureClass::kInfrastructure, "refused", "The engine takes no requests."};
  }
  return answer;
}

// Makes replicas that take their time to start, some in vain, and live for two minutes on average.
class LosableMaker final : public ReplicaMaker {
 public:
  LosableMaker(Executor& executor, const Plan& plan, int index, ScriptedEngine::Script script)
      : executor_(executor), plan_(plan), index_(index), script_(std::move(script)) {}

  Task<Result<std::shared_ptr<ReplicaEngine>>> make(WeightsPtr weights) override {
    RandomStream random = plan_.stream(6, static_cast<uint64_t>(index_), ++starts_);
    co_await sleep_for(from_seconds(2 * random.uniform()));
    // The first one serves: else there is no run.
    if (starts_ > 1 && random.below(8) == 0) {
      co_return Failure{FailureClass::kInfrastructure, LosableEngine::kLost, "It could not be started."};
    }
    const double life = plan_.fault_share > 0 ? -120 * std::log(1 - random.uniform()) : 1e9;
    co_return std::shared_ptr<ReplicaEngine>(std::make_shared<LosableEngine>(
        executor_, script_, weights->version(), from_seconds(life), from_seconds(plan_.seconds(3, 0, 0, 1))));
  }
  std::string name() const override { return fmt::format("engine {}", index_); }

 private:
  Executor& executor_;
  const Plan& plan_;
  int index_;
  uint64_t starts_ = 0;
  ScriptedEngine::Script script_;
};

EpisodeSettings settings_of(const Plan& plan) {
  EpisodeSettings settings{.failures = plan.options.failures, .run_seed = plan.seed};
  settings.limits.max_turns = 2 * kTurns;
  settings.limits.reset_timeout_seconds = 20;
  settings.limits.step_timeout_seconds = 40;
  settings.limits.generate_timeout_seconds = 60;
  settings.limits.reward_timeout_seconds = 20;
  settings.limits.close_timeout_seconds = 5;
  settings.limits.episode_timeout_seconds = 200;
  return settings;
}

// Counts what the controller did, and why, without the numbers.
std::string transition(const RunEvent& event, const std::optional<Decision>& given) {
  const auto name = [](const Json& json, const char* member) { return json.at(member).as_string(); };
  std::string text = name(event.to_json(), "event");
  if (event.kind == RunEventKind::kEpisodeFinished) text += event.scored ? ", scored" : ", failed";
  if (!given) return text + " -> nothing";
  const Decision& decision = *given;
  text += " -> " + name(decision.to_json(), "decision");
  if (decision.kind == DecisionKind::kStartEpisode) {
    text += decision.episode.attempt == 0 ? ", first" : decision.delay > 0 ? ", again later" : ", again";
  }
  if (decision.kind == DecisionKind::kConsumeBatch && decision.groups.size() < 4) text += ", a rest";
  if (decision.kind == DecisionKind::kDropGroup || decision.kind == DecisionKind::kFinish) {
    std::string reason = decision.reason.substr(0, decision.reason.find(" since"));
    if (!reason.starts_with("stale: ")) reason = reason.substr(0, reason.find(':'));
    if (reason.starts_with("stale: its")) reason = "stale: it is ready";
    std::erase_if(reason, [](unsigned char c) { return std::isdigit(c) != 0; });
    text += ", " + reason;
  }
  return text;
}

// One run and everything around it, its executor first.
class ExploredRun {
 public:
  ExploredRun(uint64_t seed, ExplorationTotals& totals)
      : totals_(totals),
        plan_(seed),
        executor_(seed),
        kind_([this](const TaskRow& task, int32_t nth) {
          return plan_.faults(task.fields.at("ordinal").as_uint(), nth);
        }),
        engine_(make_engine()),
        agent_(make_tool_agent({.tool_timeout_seconds = 10})),
        runner_(settings_of(plan_), *engine_, kind_, *agent_, language().tokenizer, language().renderer,
                test_pool(), kind_.rewards()),
        tasks_(kind_.training_tasks(0)),
        books_(plan_.options),
        orchestrator_({.controller = plan_.options,
                       .event_log = [this](const Json& line) { note(line); },
                       .episode_finished = [this](const EpisodeRecord& record) { note(record); }},
                      runner_, *tasks_, *engine_) {}

  void play() {
    try {
      run(executor_, whole());
    } catch (const std::exception& error) {
      ADD_FAILURE() << "the run did not end well: " << error.what();
    }
    kind_.counts().release.set();
    executor_.run_until_idle();
    check_end();
    ++totals_.runs;
    ++totals_.endings[ending_];
  }

 private:
  std::unique_ptr<Engine> make_engine() {
    const ScriptedEngine::Script script = [this](const GenerateRequest& request) {
      ++totals_.turns;
      return plan_.answer(request);
    };
    if (!plan_.routed) {
      return std::make_unique<ScriptedEngine>(
          script, ScriptedEngine::Options{.publish_latency = from_seconds(plan_.seconds(3, 0, 0, 1))});
    }
    std::vector<std::unique_ptr<ReplicaMaker>> makers;
    for (int i = 0; i < 2; ++i) {
      makers.push_back(std::make_unique<LosableMaker>(executor_, plan_, i, script));
    }
    RoutedEngineOptions options;
    options.on_publication = [this](const PublicationReport& report) { note(report); };
    options.on_loss = [this](const std::string&, const std::string&) { ++totals_.engines_lost; };
    auto routed = std::make_unique<RoutedEngine>(executor_, std::move(makers), std::move(options));
    routed_ = routed.get();
    return routed;
  }

  Task<> whole() {
    if (routed_ != nullptr) co_await routed_->open(weights_of_version(0));
    Scope watch(co_await current_executor());
    watch.spawn(interrupt(), "interruption");
    try {
      co_await with_cancellation(cancelled_.token(), train());
      ending_ = books_.finish_reason();
    } catch (const Cancelled&) {
      ending_ = "cancelled";
    } catch (const Error& error) {
      ending_ = error.kind() == ErrorKind::kResource ? "gave up" : "training failed";
    }
    co_await shielded(orchestrator_.close());
    watch.cancel();
    co_await shielded(watch.join());
    EXPECT_EQ(engine_->statistics().running_requests, 0);
    if (routed_ != nullptr) co_await routed_->close();
  }

  Task<> train() {
    co_await orchestrator_.start();
    int64_t version = 0;
    RandomStream random = plan_.stream(4, 0, 0);
    while (std::optional<RolloutBatch> batch = co_await orchestrator_.next_batch()) {
      for (const Group& group : batch->groups) take(group, batch->step);
      co_await sleep_for(from_seconds(plan_.seconds(5, static_cast<uint64_t>(version), 0, 10)));
      if (training_fails_) throw internal_error("Training failed.");
      if (random.below(8) == 0) {
        orchestrator_.step_skipped();
        continue;
      }
      ++totals_.steps;
      co_await orchestrator_.step_finished(weights_of_version(++version));
    }
  }

  Task<> interrupt() {
    if (plan_.interruption == Interruption::kNone) co_return;
    co_await sleep_for(plan_.moment);
    if (plan_.interruption == Interruption::kStop) orchestrator_.request_stop();
    if (plan_.interruption == Interruption::kCancel) cancelled_.request(CancelReason::kShutdown);
    training_fails_ = plan_.interruption == Interruption::kTrainingFails;
  }

  void take(const Group& group, int64_t step) {
    EXPECT_TRUE(trained_.insert(group.task_ordinal).second) << "a group was trained twice";
    EXPECT_EQ(group.episodes.size(), 4u);
    int32_t scored = 0;
    for (const EpisodeRecord& episode : group.episodes) {
      scored += episode.reward ? 1 : 0;
      EXPECT_EQ(episode.id.task_ordinal, group.task_ordinal);
      EXPECT_LE(episode.trajectory.newest_version().value_or(0), step);
    }
    EXPECT_GE(scored, plan_.options.min_scored);
  }

  void note(const Json& line) {
    if (plan_.seed % 4 == 0) log_.push_back(line);
    if (line.find("event_log") != nullptr) return;
    const RunEvent event = RunEvent::from_json(line);
    std::vector<Decision> decisions;
    if (line.at("decisions").as_array().empty()) ++totals_.transitions[transition(event, std::nullopt)];
    for (const Json& decision : line.at("decisions").as_array()) {
      decisions.push_back(Decision::from_json(decision));
      ++totals_.transitions[transition(event, decisions.back())];
      totals_.episodes += decisions.back().kind == DecisionKind::kStartEpisode ? 1 : 0;
    }
    books_.check(event, decisions);
  }

  // No engine that takes requests is on another version, or on half of one.
  void note(const PublicationReport& report) {
    ++totals_.publications[to_string(report.outcome)];
    if (report.outcome == PublicationOutcome::kAborted) return;
    for (const RoutedEngine::ReplicaState& replica : routed_->replicas()) {
      if (replica.serving) EXPECT_EQ(replica.version, report.version) << replica.name;
    }
  }

  // The loss of an engine costs no request, and no token of one.
  void note(const EpisodeRecord& record) {
    ++totals_.failures[record.failure ? record.failure->name() : "done"];
    if (record.failure) EXPECT_NE(record.failure->reason, LosableEngine::kLost);
    for (const Span& span : record.trajectory.spans()) {
      if (span.kind != SpanKind::kSampled || span.stop_reason != StopReason::kStopToken) continue;
      const std::span<const int32_t> tokens = record.trajectory.tokens().subspan(
          static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
      EXPECT_TRUE(std::ranges::equal(tokens, language().say) || std::ranges::equal(tokens, language().call));
    }
  }

  void check_end() {
    const FaultyCounts& counts = kind_.counts();
    EXPECT_EQ(counts.destroyed, counts.made) << "an environment is left";
    EXPECT_EQ(counts.lost_unclosed, 0);
    EXPECT_EQ(counts.closed_again, 0);
    EXPECT_EQ(counts.used_closed, 0);
    EXPECT_EQ(counts.closes, counts.made);
    EXPECT_TRUE(books_.running().empty()) << "an episode is lost";
    EXPECT_EQ(orchestrator_.controller().running_episodes(), 0);
    EXPECT_EQ(books_.dispatched_groups(),
              books_.consumed_groups() + books_.dropped_groups() + books_.open_groups())
        << "a group is lost";
    // A batch may be decided that nobody takes any more.
    EXPECT_LE(trained_.size(), books_.consumed_groups());
    if (ending_ == "all steps are done" || ending_ == "no tasks are left") {
      EXPECT_EQ(trained_.size(), books_.consumed_groups());
    }
    if (plan_.seed % 4 == 0) EXPECT_EQ(replay_event_log(log_).difference, std::nullopt);
    totals_.environments += counts.made;
    totals_.groups_trained += static_cast<int64_t>(trained_.size());
    totals_.groups_dropped += static_cast<int64_t>(books_.dropped_groups());
  }

  ExplorationTotals& totals_;
  const Plan plan_;
  SimulatedExecutor executor_;
  FaultyEnvironmentKind kind_;
  RoutedEngine* routed_ = nullptr;  // engine_, where it is one
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Agent> agent_;
  EpisodeRunner runner_;
  std::unique_ptr<TaskSource> tasks_;
  DecisionBooks books_;
  CancellationSource cancelled_;
  bool training_fails_ = false;
  std::string ending_ = "did not end";
  std::set<uint64_t> trained_;
  std::vector<Json> log_;
  Orchestrator orchestrator_;
};

void add_lines(std::string& text, const char* title, const std::map<std::string, int64_t>& counts) {
  text += fmt::format("{} ({}):\n", title, counts.size());
  for (const auto& [name, count] : counts) text += fmt::format("  {:>10} {}\n", count, name);
}

}  // namespace

std::string ExplorationTotals::to_text() const {
  std::string text = fmt::format(
      "{} runs: {} steps, {} groups trained, {} dropped, {} episodes, {} turns, {} environments, {} engines "
      "lost\n",
      runs, steps, groups_trained, groups_dropped, episodes, turns, environments, engines_lost);
  add_lines(text, "endings", endings);
  add_lines(text, "attempts", failures);
  add_lines(text, "publications to two engines", publications);
  add_lines(text, "transitions of the controller", transitions);
  return text;
}

void explore(uint64_t seed, ExplorationTotals& totals) { ExploredRun(seed, totals).play(); }

}  // namespace stoker::testing
