#include "rollout/episode.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/testing.h"
#include "async/timeout.h"
#include "environment/registry.h"
#include "rollout/rollout_test_support.h"

namespace stoker {
namespace {

using std::chrono::seconds;
using testing::Fault;
using testing::FaultPlan;
using testing::FaultyEnvironmentKind;

std::string say_turn(const GenerateRequest& request) { return "say " + std::to_string(request.stream.turn); }

TaskRow faulty_task(uint64_t ordinal = 0) {
  return {
      .id = "faulty/" + std::to_string(ordinal),
      .fields = Json::object({{"prompt", "Task " + std::to_string(ordinal) + "?"}, {"ordinal", ordinal}})};
}

EpisodeRecord play(EpisodeRig& rig, uint64_t seed = 0, EpisodeId id = {0, 0, 0},
                   const std::optional<Trajectory>& resume_from = std::nullopt) {
  Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(seed));
  auto begun = resume_from ? std::make_shared<const Trajectory>(*resume_from) : nullptr;
  return run(executor, rig.runner().run(id, faulty_task(id.task_ordinal), std::move(begun)));
}

std::string failure_name(const EpisodeRecord& record) {
  return record.failure ? record.failure->name() : "done";
}

std::string text_of(const EpisodeRig& rig, const Trajectory& trajectory, SpanKind kind) {
  std::string text;
  for (const Span& span : trajectory.spans()) {
    if (span.kind != kind) continue;
    text += rig.tokenizer->decode(trajectory.tokens().subspan(span.begin, span.end - span.begin)) + "|";
  }
  return text;
}

TEST(Episode, TheTrajectoryHoldsTheWholeConversation) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn);
  rig.latency = seconds(2);
  const EpisodeRecord record = play(rig, 0, {5, 1, 2});
  EXPECT_EQ(failure_name(record), "done");
  EXPECT_EQ(rig.tokenizer->decode(record.trajectory.tokens()),
            "<|im_start|>user\nTask 5?<|im_end|>\n<|im_start|>assistant\nsay 0<|im_end|>"
            "\n<|im_start|>user\nTurn 1.<|im_end|>\n<|im_start|>assistant\nsay 1<|im_end|>");
  EXPECT_EQ(text_of(rig, record.trajectory, SpanKind::kSampled), "say 0<|im_end|>|say 1<|im_end|>|");
  EXPECT_EQ(text_of(rig, record.trajectory, SpanKind::kObservation), "Turn 1.|");
  EXPECT_EQ(text_of(rig, record.trajectory, SpanKind::kInjected),
            "\n<|im_start|>user\n|<|im_end|>\n<|im_start|>assistant\n|");
  EXPECT_EQ(record.trajectory.turn_count(), 2);
  EXPECT_EQ(record.id, (EpisodeId{5, 1, 2}));
  EXPECT_EQ(record.task_id, "faulty/5");
  EXPECT_EQ(record.purpose, "train");
  EXPECT_EQ(record.reward, 1.0);
  EXPECT_EQ(record.rewards.at("planted"), 1.0);
  EXPECT_TRUE(record.success);
  EXPECT_EQ(record.end_time - record.start_time, 4'000'000'000);
  EXPECT_EQ(record.trajectory.spans()[1].end_time - record.trajectory.spans()[1].start_time, 2'000'000'000);
}

TEST(Episode, EachTurnDrawsFromItsOwnStream) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn, {.run_seed = 77, .purpose = RandomPurpose::kEvaluate});
  const EpisodeRecord record = play(rig, 0, {5, 1, 2});
  ASSERT_EQ(rig.requests.size(), 2u);
  const StreamKey key{
      .run_seed = 77, .purpose = RandomPurpose::kEvaluate, .task_ordinal = 5, .sample = 1, .attempt = 2};
  EXPECT_EQ(rig.requests[0].stream, key);
  StreamKey next = key;
  next.turn = 1;
  EXPECT_EQ(rig.requests[1].stream, next);
  EXPECT_EQ(rig.requests[1].stop.tokens[0], rig.tokenizer->require_token("<|im_end|>"));
  EXPECT_EQ(record.purpose, "evaluate");
}

TEST(Episode, ToolResultsGoToTheModelAndNotToTheEnvironment) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 1}; });
  EpisodeRig rig(kind, [](const GenerateRequest& request) -> std::string {
    if (request.stream.turn > 0) return "done";
    return "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call>" + call_text("nobody", 1);
  });
  const EpisodeRecord record = play(rig);
  EXPECT_EQ(failure_name(record), "done");
  EXPECT_EQ(record.tool_calls, 2);
  EXPECT_EQ(record.tool_errors, 1);
  EXPECT_EQ(kind.counts().steps, 1);
  EXPECT_EQ(text_of(rig, record.trajectory, SpanKind::kObservation),
            "probed|error: there is no tool named 'nobody'; the tools are: probe.|");
}

// The ids of a text that its own encoding would not give.
std::vector<int32_t> one_token_a_character(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char character : text) {
    for (int32_t token : tokenizer.encode(std::string(1, character))) tokens.push_back(token);
  }
  return tokens;
}

TEST(Episode, TPL_15_WhatIsTrainedIsWhatWasSampledNeverItsTextEncodedAgain) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn);
  std::vector<int32_t> sampled = one_token_a_character(*rig.tokenizer, "The answer is");
  ASSERT_NE(rig.tokenizer->encode("The answer is"), sampled);
  sampled.push_back(rig.tokenizer->require_token("<|im_end|>"));
  rig.raw = [&](const GenerateRequest& request) {
    ScriptedAnswer answer{.tokens = sampled};
    for (size_t i = 0; i < sampled.size(); ++i) {
      answer.log_probabilities.push_back(-0.25f * static_cast<float>(1 + i + 100 * request.stream.turn));
    }
    return answer;
  };
  const EpisodeRecord record = play(rig);
  const Trajectory& trajectory = record.trajectory;
  ASSERT_EQ(trajectory.turn_count(), 2);
  for (const Span& span : trajectory.spans()) {
    if (span.kind != SpanKind::kSampled) continue;
    ASSERT_EQ(span.end - span.begin, static_cast<int32_t>(sampled.size()));
    for (int32_t i = span.begin; i < span.end; ++i) {
      EXPECT_EQ(trajectory.tokens()[i], sampled[static_cast<size_t>(i - span.begin)]);
      EXPECT_EQ(trajectory.log_probability(i),
                -0.25f * static_cast<float>(1 + i - span.begin + 100 * span.turn));
    }
  }
  // The second turn was sampled behind the very ids of the first.
  const std::vector<int32_t>& context = rig.requests.at(1).tokens;
  EXPECT_TRUE(std::equal(context.begin(), context.end(), trajectory.tokens().begin()));
}

TEST(Episode, TheArithmeticEnvironmentIsPlayedToItsReward) {
  const auto kind = make_environment_kind("arithmetic", Json::object({}));
  const auto tasks = kind->training_tasks(3);
  for (uint64_t ordinal = 0; ordinal < 20; ++ordinal) {
    const TaskRow task = tasks->task(ordinal);
    const std::string expression = task.fields.at("expression").as_string();
    const std::string answer = task.fields.at("answer").is_string() ? task.fields.at("answer").as_string()
                                                                    : task.fields.at("answer").dump();
    EpisodeRig rig(*kind, [&](const GenerateRequest& request) -> std::string {
      if (request.stream.turn == 1) return "The answer is " + answer + ".";
      return "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"" + expression +
             "\"}}\n</tool_call>";
    });
    Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(ordinal));
    const EpisodeRecord record = run(executor, rig.runner().run({ordinal, 0, 0}, task));
    EXPECT_EQ(failure_name(record), "done");
    EXPECT_EQ(record.reward, 1.0);
    EXPECT_EQ(text_of(rig, record.trajectory, SpanKind::kObservation), answer + "|");
  }
}

struct FaultCase {
  const char* place;
  Fault FaultPlan::* member;
  Fault fault;
  const char* failure;
};

const FaultCase kFaultCases[] = {
    {"reset", &FaultPlan::reset, Fault::kThrow, "environment.exception"},
    {"reset", &FaultPlan::reset, Fault::kThrowForeign, "environment.exception"},
    {"reset", &FaultPlan::reset, Fault::kFail, "environment.planted"},
    {"reset", &FaultPlan::reset, Fault::kHang, "environment.timeout"},
    {"reset", &FaultPlan::reset, Fault::kHangHard, "environment.timeout"},
    {"reset", &FaultPlan::reset, Fault::kSleep, "done"},
    {"step", &FaultPlan::step, Fault::kThrow, "environment.exception"},
    {"step", &FaultPlan::step, Fault::kThrowForeign, "environment.exception"},
    {"step", &FaultPlan::step, Fault::kFail, "environment.planted"},
    {"step", &FaultPlan::step, Fault::kHang, "environment.timeout"},
    {"step", &FaultPlan::step, Fault::kHangHard, "environment.timeout"},
    {"step", &FaultPlan::step, Fault::kSleep, "done"},
    {"tool", &FaultPlan::tool, Fault::kThrow, "tool.exception"},
    {"tool", &FaultPlan::tool, Fault::kThrowForeign, "tool.exception"},
    {"tool", &FaultPlan::tool, Fault::kFail, "tool.planted"},
    {"tool", &FaultPlan::tool, Fault::kHang, "tool.timeout"},
    {"tool", &FaultPlan::tool, Fault::kHangHard, "tool.timeout"},
    {"close", &FaultPlan::close, Fault::kThrow, "done"},
    {"close", &FaultPlan::close, Fault::kThrowForeign, "done"},
    {"close", &FaultPlan::close, Fault::kHang, "done"},
    {"close", &FaultPlan::close, Fault::kHangHard, "done"},
    {"reward", &FaultPlan::reward, Fault::kThrow, "reward.exception"},
    {"reward", &FaultPlan::reward, Fault::kThrowForeign, "reward.exception"},
    {"reward", &FaultPlan::reward, Fault::kFail, "reward.planted"},
    {"reward", &FaultPlan::reward, Fault::kHang, "reward.timeout"},
    {"reward", &FaultPlan::reward, Fault::kHangHard, "reward.timeout"},
    {"reward", &FaultPlan::reward, Fault::kSleep, "done"},
};

std::string probe_then_say(const GenerateRequest& request) {
  if (request.stream.turn == 0) return "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call>";
  return "say";
}

// The environment is closed exactly once, on time or not, and nothing is left of it once what hangs is let
// go.
Task<> play_with_fault(EpisodeRig* rig, const FaultyEnvironmentKind* kind, const FaultCase* fault) {
  const EpisodeRecord record = co_await rig->runner().run({0, 0, 0}, faulty_task());
  EXPECT_EQ(failure_name(record), fault->failure);
  EXPECT_EQ(record.reward.has_value(), failure_name(record) == "done") << "no reward is not zero";
  testing::FaultyCounts& counts = kind->counts();
  EXPECT_EQ(counts.closes, 1);
  EXPECT_EQ(counts.closed_again, 0);
  EXPECT_EQ(counts.used_closed, 0);
  EXPECT_EQ(counts.lost_unclosed, 0);
  const bool close_hangs = std::string(fault->place) == "close" &&
                           (fault->fault == Fault::kHang || fault->fault == Fault::kHangHard);
  EXPECT_EQ(rig->runner().abandoned_environments(), close_hangs ? 1 : 0);
  EXPECT_EQ(rig->runner().abandoned_calls() > 0,
            fault->fault == Fault::kHangHard && std::string(fault->place) != "tool");
  counts.release.set();
  co_await sleep_for(seconds(1));
  EXPECT_EQ(counts.made, counts.destroyed);
}

TEST(Episode, QUE_07_EveryFaultOfTheWorldIsAFailureOfItsClassAndTheEnvironmentIsClosed) {
  for (const FaultCase& fault : kFaultCases) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(std::string(fault.place) + " " + std::to_string(static_cast<int>(fault.fault)));
      SimulatedExecutor executor(seed);
      FaultyEnvironmentKind kind([&](const TaskRow&, int32_t) {
        FaultPlan plan;
        plan.*fault.member = fault.fault;
        return plan;
      });
      EpisodeRig rig(kind, probe_then_say);
      run(executor, play_with_fault(&rig, &kind, &fault));
      if (HasFailure()) return;
    }
  }
}

// Cancels the episode at a moment of its life; what it waits for may hang.
Task<> cancel_at(EpisodeRig* rig, const FaultyEnvironmentKind* kind, Duration moment) {
  const auto record = co_await with_timeout(moment, rig->runner().run({0, 0, 0}, faulty_task()));
  testing::FaultyCounts& counts = kind->counts();
  EXPECT_EQ(counts.closes, counts.made);
  EXPECT_EQ(counts.closed_again, 0);
  EXPECT_EQ(counts.used_closed, 0);
  counts.release.set();
  co_await sleep_for(seconds(1));
  EXPECT_EQ(counts.made, counts.destroyed);
  EXPECT_EQ(counts.lost_unclosed, 0);
  if (!record) EXPECT_EQ(rig->engine.statistics().running_requests, 0);
}

TEST(Episode, CancelledAtAnyMomentItClosesItsEnvironmentExactlyOnce) {
  for (const FaultCase& fault : kFaultCases) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(std::string(fault.place) + " " + std::to_string(static_cast<int>(fault.fault)));
      SimulatedExecutor executor(seed);
      FaultyEnvironmentKind kind([&](const TaskRow&, int32_t) {
        FaultPlan plan{.step = Fault::kSleep, .delay = seconds(2)};
        plan.*fault.member = fault.fault;
        return plan;
      });
      EpisodeRig rig(kind, probe_then_say);
      rig.latency = seconds(1);
      run(executor, cancel_at(&rig, &kind, std::chrono::milliseconds(250 * seed)));
      if (HasFailure()) return;
    }
  }
}

// ---- Limits ----

EpisodeRecord play_limited(const EpisodeLimits& limits, EpisodeRig::Policy policy = say_turn,
                           Duration latency = Duration(0), int32_t turns = 5) {
  FaultyEnvironmentKind kind([turns](const TaskRow&, int32_t) { return FaultPlan{.turns = turns}; });
  EpisodeRig rig(kind, std::move(policy), {.limits = limits});
  rig.latency = latency;
  const EpisodeRecord record = play(rig);
  EXPECT_EQ(kind.counts().closes, 1);
  EXPECT_EQ(kind.counts().scores, record.reward ? 1 : 0);
  return record;
}

TEST(EpisodeLimits, TurnsEndTheEpisodeWhichIsScored) {
  const EpisodeRecord record = play_limited({.max_turns = 3});
  EXPECT_EQ(failure_name(record), "limit.turns");
  EXPECT_EQ(record.reward, 1.0);
  EXPECT_EQ(record.trajectory.turn_count(), 3);
  EXPECT_EQ(record.trajectory.spans().back().kind, SpanKind::kSampled);
  EXPECT_EQ(failure_name(play_limited({.max_turns = 5})), "done");
}

TEST(EpisodeLimits, SampledTokensEndTheEpisodeAndNeverPassTheBudget) {
  const int32_t turn = 6;  // "say", " ", the digit and <|im_end|> in the demo's tokens
  for (int32_t budget = 1; budget < 20; ++budget) {
    const EpisodeRecord record = play_limited({.max_sampled_tokens = budget});
    EXPECT_EQ(failure_name(record), "limit.sampled_tokens");
    EXPECT_EQ(record.reward, 1.0);
    EXPECT_EQ(record.trajectory.sampled_count(), budget);
  }
  EXPECT_EQ(failure_name(play_limited({.max_sampled_tokens = 5 * turn})), "done");
}

TEST(EpisodeLimits, ENV_11_TheContextIsNeverOverrun) {
  const int32_t whole = play_limited({}).trajectory.size();
  for (int32_t limit = 1; limit < whole; ++limit) {
    const EpisodeRecord record = play_limited({.max_context_tokens = limit});
    EXPECT_EQ(failure_name(record), "limit.context") << limit;
    EXPECT_LE(record.trajectory.size(),
              std::max(limit, 34));  // a prompt alone may be longer: nothing is sampled
    EXPECT_EQ(record.reward, 1.0);
  }
  EXPECT_EQ(failure_name(play_limited({.max_context_tokens = whole})), "done");
}

TEST(EpisodeLimits, ObservationTokensEndTheEpisode) {
  const EpisodeRecord record = play_limited({.max_observation_tokens = 10});  // "Turn 1." twice is 14
  EXPECT_EQ(failure_name(record), "limit.observation_tokens");
  EXPECT_EQ(record.trajectory.turn_count(), 2);
  EXPECT_EQ(record.reward, 1.0);
}

TEST(EpisodeLimits, ENV_15_ATurnThatWasCutCountsAsItIs) {
  const EpisodeRecord record = play_limited({.max_turn_tokens = 2}, say_turn, Duration(0), 2);
  EXPECT_EQ(failure_name(record), "done");
  ASSERT_GE(record.trajectory.spans().size(), 2u);
  EXPECT_EQ(record.trajectory.spans()[1].stop_reason, StopReason::kLength);
  EXPECT_EQ(record.trajectory.sampled_count(), 4);
}

TEST(EpisodeLimits, TheWallClockEndsTheEpisodeWithoutAReward) {
  const EpisodeRecord record = play_limited({.episode_timeout_seconds = 2.5}, say_turn, seconds(1));
  EXPECT_EQ(failure_name(record), "limit.wall_clock");
  EXPECT_EQ(record.reward, std::nullopt);
  EXPECT_EQ(record.trajectory.turn_count(), 3);
  EXPECT_EQ(record.trajectory.spans().back().stop_reason, StopReason::kAborted);
  EXPECT_EQ(record.end_time - record.start_time, 2'500'000'000);
}

TEST(EpisodeLimits, ARequestThatIsLostKeepsItsTokensAsAborted) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn, {.limits = {.generate_timeout_seconds = 10}});
  rig.raw = [](const GenerateRequest&) {
    return ScriptedAnswer{.tokens = {5, 6, 7, 8}, .token_interval = seconds(4)};
  };
  const EpisodeRecord late = play(rig);
  EXPECT_EQ(failure_name(late), "infrastructure.timeout");
  EXPECT_EQ(late.trajectory.sampled_count(), 3);
  EXPECT_EQ(late.trajectory.spans().back().stop_reason, StopReason::kAborted);

  EpisodeRig lost(kind, say_turn);
  lost.raw = [](const GenerateRequest&) {
    return ScriptedAnswer{.tokens = {5, 6},
                          .failure = Failure{FailureClass::kInfrastructure, "lost", "gone"}};
  };
  const EpisodeRecord record = play(lost);
  EXPECT_EQ(failure_name(record), "infrastructure.lost");
  EXPECT_EQ(record.trajectory.sampled_count(), 2);
  EXPECT_EQ(record.reward, std::nullopt);
}

TEST(EpisodeLimits, AContextThatTheEngineRefusesIsTheContextLimit) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn);
  rig.raw = [](const GenerateRequest&) {
    return ScriptedAnswer{.failure = Failure{FailureClass::kLimit, "context_length", "too long"}};
  };
  const EpisodeRecord record = play(rig);
  EXPECT_EQ(failure_name(record), "limit.context");
  EXPECT_EQ(record.reward, 1.0);
}

// ---- Broken promises and settings ----

TEST(Episode, WhatTheEngineThrowsComesOutAndTheEnvironmentIsClosed) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn);
  rig.raw = [](const GenerateRequest&) -> ScriptedAnswer { throw internal_error("The engine broke."); };
  EXPECT_THROW(play(rig), Error);
  EXPECT_EQ(kind.counts().closes, 1);
}

TEST(Episode, ENV_13_SettingsOutOfRangeAreRefusedByName) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  const auto refused = [&](const EpisodeSettings& settings) {
    EpisodeRig rig(kind, say_turn, settings);
    return input_error_of([&] { rig.runner(); });
  };
  EXPECT_NE(refused({.limits = {.step_timeout_seconds = std::nan("")}}).find("step_timeout_seconds"),
            std::string::npos);
  EXPECT_NE(refused({.limits = {.close_timeout_seconds = 0}}).find("close_timeout_seconds"),
            std::string::npos);
  EXPECT_NE(refused({.limits = {.episode_timeout_seconds = -1}}).find("episode_timeout_seconds"),
            std::string::npos);
  EXPECT_NE(refused({.limits = {.max_turns = 0}}).find("max_turns"), std::string::npos);
  EXPECT_NE(refused({.sampling = {.temperature = -1}}).find("temperature"), std::string::npos);
  const double forever = std::numeric_limits<double>::infinity();
  EpisodeRig rig(kind, say_turn,
                 {.limits = {.reset_timeout_seconds = forever,
                             .step_timeout_seconds = 1e300,
                             .generate_timeout_seconds = forever,
                             .reward_timeout_seconds = forever,
                             .close_timeout_seconds = forever,
                             .episode_timeout_seconds = forever}});
  EXPECT_EQ(failure_name(play(rig)), "done");
  EpisodeRig weighted(kind, say_turn);
  weighted.weights = {1, 2};
  EXPECT_NE(input_error_of([&] { weighted.runner(); }).find("2 reward weights for 1 rewards"),
            std::string::npos);
}

// ---- Rewards ----

class FixedReward final : public Reward {
 public:
  FixedReward(std::string name, double value, bool success)
      : name_(std::move(name)), value_(value), success_(success) {}
  std::string name() const override { return name_; }
  Task<Result<RewardResult>> score(const EpisodeView& episode) override {
    co_await sleep_for(seconds(5));
    EXPECT_EQ(episode.messages.back().content, "say 1");
    EXPECT_EQ(episode.record.trajectory.turn_count(), 2);
    co_return RewardResult{.reward = value_, .success = success_};
  }

 private:
  std::string name_;
  double value_;
  bool success_;
};

EpisodeRecord play_with_rewards(double first, double second, std::vector<double> weights) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn);
  rig.rewards.push_back(std::make_unique<FixedReward>("first", first, true));
  rig.rewards.push_back(std::make_unique<FixedReward>("second", second, false));
  rig.weights = std::move(weights);
  return play(rig);
}

TEST(EpisodeReward, MET_01_TheRewardIsTheWeightedSum) {
  const EpisodeRecord record = play_with_rewards(1.0, 0.0, {0.7, 0.3});
  EXPECT_EQ(record.reward, 0.7);
  EXPECT_EQ(record.rewards.at("first"), 1.0);
  EXPECT_EQ(record.rewards.at("second"), 0.0);
  EXPECT_TRUE(record.success);
  EXPECT_EQ(record.end_time - record.start_time, 5'000'000'000) << "rewards run side by side";
  EXPECT_EQ(play_with_rewards(1.0, 0.25, {}).reward, 1.25);
}

TEST(EpisodeReward, ARewardThatIsNoNumberIsAFailure) {
  const EpisodeRecord record = play_with_rewards(1.0, std::nan(""), {});
  EXPECT_EQ(failure_name(record), "reward.not_finite");
  EXPECT_EQ(record.reward, std::nullopt);
  EXPECT_FALSE(record.success);
}

// ---- Templates that rewrite history, long prompts ----

class RewritingRenderer final : public Renderer {
 public:
  explicit RewritingRenderer(const Renderer& inner) : inner_(inner) {}
  Result<RenderedTokens> render(std::span<const Message> messages, std::span<const ToolSchema> tools,
                                bool add_generation_prompt) const override {
    return inner_.render(messages, tools, add_generation_prompt);
  }
  Result<Bridge> bridge(std::span<const int32_t>, std::span<const Message>) const override {
    return Bridge(HistoryRewritten{.message = 1, .reason = "its thinking is left out."});
  }
  std::span<const int32_t> stop_tokens() const override { return inner_.stop_tokens(); }
  const Tokenizer& tokenizer() const override { return inner_.tokenizer(); }

 private:
  const Renderer& inner_;
};

TEST(Episode, ATemplateThatRewritesHistoryIsAFailureAndNothingIsTokenisedAgain) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  EpisodeRig rig(kind, say_turn);
  RewritingRenderer rewriting(rig.renderer);
  rig.other_renderer = &rewriting;
  const EpisodeRecord record = play(rig);
  EXPECT_EQ(failure_name(record), "infrastructure.history_rewritten");
  EXPECT_NE(record.failure->message.find("from message 1 on: its thinking is left out."), std::string::npos);
  EXPECT_EQ(record.trajectory.turn_count(), 1);
}

Task<> play_long_prompt(EpisodeRig* rig, EpisodeRecord* record) {
  TaskRow task = faulty_task();
  task.fields.set("prompt", std::string(300'000, 'a'));
  *record = co_await rig->runner().run({0, 0, 0}, task);
}

TEST(Episode, ALongPromptIsRenderedBesideTheLoop) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{}; });
  for (int real = 0; real < 2; ++real) {
    EpisodeRig rig(kind, say_turn);
    EpisodeRecord record;
    if (real == 1) {
      run(rig.own(std::make_unique<RealExecutor>()), play_long_prompt(&rig, &record));
    } else {
      run(rig.own(std::make_unique<SimulatedExecutor>(1)), play_long_prompt(&rig, &record));
    }
    EXPECT_EQ(failure_name(record), "done");
    EXPECT_GT(record.trajectory.size(), 300'000);
  }
}

// ---- Resuming ----

// Tools, observations, retried turns: everything that a resumed episode has to play again.
std::string mixed_policy(const GenerateRequest& request) {
  if (request.stream.turn % 2 == 0)
    return probe_then_say({.stream = {.turn = 0}}) + " " + std::to_string(request.stream.turn);
  return say_turn(request);
}

TEST(EpisodeResume, FromEveryTurnItGivesTheSameEpisode) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 3}; });
  EpisodeRig rig(kind, mixed_policy, {.run_seed = 3});
  const EpisodeRecord whole = play(rig);
  EXPECT_EQ(failure_name(whole), "done");
  ASSERT_EQ(whole.trajectory.turn_count(), 6);
  for (int32_t turns = 0; turns <= 6; ++turns) {
    EpisodeRig again(kind, mixed_policy, {.run_seed = 3});
    const EpisodeRecord resumed = play(again, 9, {0, 0, 0}, whole.trajectory.cut_after_turn(turns));
    EXPECT_EQ(again.requests.size(), static_cast<size_t>(6 - turns));
    EXPECT_EQ(failure_name(resumed), "done");
    EXPECT_EQ(resumed.trajectory, whole.trajectory) << turns;
    EXPECT_EQ(resumed.tool_calls, whole.tool_calls);
    EXPECT_EQ(resumed.reward, whole.reward);
  }
}

TEST(EpisodeResume, AnAbortedTurnIsSampledAgain) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 2}; });
  EpisodeRig rig(kind, say_turn);
  const EpisodeRecord whole = play(rig);
  Trajectory cut = whole.trajectory.cut_after_turn(1);
  cut.begin_sampled(1);
  cut.append_sampled(9, -3.0f, 0);
  cut.close_sampled(StopReason::kAborted);
  EpisodeRig again(kind, say_turn);
  EXPECT_EQ(play(again, 0, {0, 0, 0}, cut).trajectory, whole.trajectory);
}

TEST(EpisodeResume, AWorldThatSaysSomethingElseIsAMismatch) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 4}; });
  FaultyEnvironmentKind shorter([](const TaskRow&, int32_t) { return FaultPlan{.turns = 2}; });
  EpisodeRig rig(kind, say_turn);
  const EpisodeRecord whole = play(rig);
  {
    EpisodeRig again(kind, say_turn);  // another task, another prompt
    EXPECT_EQ(failure_name(play(again, 0, {1, 0, 0}, whole.trajectory)), "environment.replay_mismatch");
  }
  {
    EpisodeRig again(shorter, say_turn);  // done before the record is
    EXPECT_EQ(failure_name(play(again, 0, {0, 0, 0}, whole.trajectory)), "environment.replay_mismatch");
  }
  {
    EpisodeRig longer(shorter, say_turn);
    const EpisodeRecord two_turns = play(longer);
    EpisodeRig again(kind, say_turn);  // not done where the record is
    EXPECT_EQ(failure_name(play(again, 0, {0, 0, 0}, two_turns.trajectory)), "done");
  }
}

}  // namespace
}  // namespace stoker
