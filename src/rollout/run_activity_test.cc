#include "rollout/run_activity.h"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "async/scope.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"
#include "rollout/orchestrator.h"
#include "rollout/rollout_test_support.h"
#include "rollout/stall_watch.h"

namespace stoker {
namespace {

// Keeps what it is told, and checks that spans nest.
class RecordingTracer final : public Tracer {
 public:
  struct Line {
    std::string track, span;
    int64_t begin = 0, end = -1;
    std::vector<uint64_t> flows;
    std::map<std::string, std::string> notes;
  };

  TraceTrack open_track(std::string name, TraceTrack parent) override {
    names_.push_back(parent ? names_.at(parent.number) + "/" + name : name);
    open_.emplace_back();
    return {static_cast<uint32_t>(names_.size()) - 1};
  }
  void close_track(TraceTrack track) override { EXPECT_TRUE(open_.at(track.number).empty()); }
  uint64_t flow_of(TraceTrack track) const override { return 1000 + track.number; }
  void begin(TraceTrack track, TraceSpan span, int64_t time, const TraceDetails& details) override {
    open_.at(track.number).push_back(lines.size());
    EXPECT_LE(open_.at(track.number).size(), kTraceDepth);
    lines.push_back({.track = names_.at(track.number),
                     .span = to_string(span),
                     .begin = time,
                     .flows = {details.flows.begin(), details.flows.end()}});
  }
  void end(TraceTrack track, int64_t time, const TraceDetails& details) override {
    ASSERT_FALSE(open_.at(track.number).empty());
    Line& line = lines.at(open_.at(track.number).back());
    open_.at(track.number).pop_back();
    EXPECT_GE(time, line.begin);
    line.end = time;
    for (const TraceNote& note : details.notes) line.notes[note.name] = note.text;
  }
  void count(TraceCounter counter, int64_t, double) override { ++counts[to_string(counter)]; }

  std::vector<std::string> spans_of(const std::string& track) const {
    std::vector<std::string> spans;
    for (const Line& line : lines) {
      if (line.track == track) spans.push_back(line.span);
    }
    return spans;
  }
  const Line& line(const std::string& track, const std::string& span) const {
    for (const Line& line : lines) {
      if (line.track == track && line.span == span) return line;
    }
    throw std::runtime_error(track + " has no " + span);
  }
  bool all_ended() const {
    for (const auto& open : open_) {
      if (!open.empty()) return false;
    }
    return true;
  }

  std::vector<Line> lines;
  std::map<std::string, int> counts;

 private:
  std::vector<std::string> names_{""};
  std::vector<std::vector<size_t>> open_{{}};
};

WeightsPtr weights_of(int64_t version) {
  ModelConfig config;
  config.vocab_size = config.hidden_size = config.head_dim = config.intermediate_size = 8;
  config.max_position_embeddings = 8;
  config.num_hidden_layers = config.num_attention_heads = config.num_key_value_heads = 1;
  auto weights = std::make_shared<Weights>(config);
  weights->set_version(version);
  return weights;
}

Task<> train(Orchestrator& orchestrator) {
  co_await orchestrator.start();
  while (const std::optional<RolloutBatch> batch = co_await orchestrator.next_batch()) {
    co_await sleep_for(std::chrono::seconds(3));
    co_await orchestrator.step_finished(weights_of(batch->step + 1));
  }
  co_await orchestrator.close();
}

using testing::Fault;
using testing::FaultPlan;
using testing::FaultyEnvironmentKind;

TaskRow faulty_task() {
  return {.id = "faulty/0", .fields = Json::object({{"prompt", "Task 0?"}, {"ordinal", 0}})};
}

// The policy calls the tool in its first turn and says something in the others.
std::string call_first(const GenerateRequest& request) {
  if (request.stream.turn > 0) return "said";
  return "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call>";
}

TEST(RunActivity, AnEpisodesSpansAreWhatItDid) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) {
    return FaultPlan{
        .reset = Fault::kSleep, .tool = Fault::kSleep, .turns = 1, .delay = std::chrono::seconds(5)};
  });
  RecordingTracer tracer;
  RunActivity activity(&tracer);
  EpisodeRig rig(kind, call_first, {.activity = &activity});
  rig.latency = std::chrono::seconds(2);
  Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(0));
  run(executor, rig.runner().run({3, 1, 2}, faulty_task()));
  const std::string track = "episode 3.1.2";
  EXPECT_EQ(tracer.spans_of(track),
            (std::vector<std::string>{"episode", "construct", "reset", "queue", "prefill", "decode", "tool",
                                      "queue", "prefill", "decode", "step", "close", "reward"}));
  constexpr int64_t kSecond = 1'000'000'000;
  const auto seconds_of = [&](const char* span) {
    return (tracer.line(track, span).end - tracer.line(track, span).begin) / kSecond;
  };
  EXPECT_EQ(seconds_of("reset"), 5);
  EXPECT_EQ(seconds_of("prefill"), 2);
  EXPECT_EQ(seconds_of("tool"), 5);
  EXPECT_EQ(seconds_of("episode"), 14);
  EXPECT_EQ(tracer.line(track, "episode").notes.at("outcome"), "done");
  EXPECT_EQ(tracer.line(track, "close").flows.size(), 1u);
  EXPECT_TRUE(tracer.all_ended());
}

TEST(RunActivity, WhateverGoesWrongEverySpanEnds) {
  for (Fault fault : {Fault::kThrow, Fault::kFail, Fault::kHang, Fault::kHangHard}) {
    for (auto member :
         {&FaultPlan::reset, &FaultPlan::step, &FaultPlan::tool, &FaultPlan::close, &FaultPlan::reward}) {
      FaultyEnvironmentKind kind([&](const TaskRow&, int32_t) {
        FaultPlan plan;
        plan.*member = fault;
        return plan;
      });
      RecordingTracer tracer;
      RunActivity activity(&tracer);
      EpisodeRig rig(kind, call_first, {.activity = &activity});
      Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(1));
      const EpisodeRecord record = run(executor, rig.runner().run({0, 0, 0}, faulty_task()));
      kind.counts().release.set();
      EXPECT_TRUE(tracer.all_ended());
      EXPECT_EQ(tracer.line("episode 0.0", "episode").notes.at("outcome"),
                record.failure ? record.failure->name() : "done");
      EXPECT_TRUE(activity.stuck_since(0, 1 << 30).empty());
    }
  }
}

Task<> play_until(EpisodeRunner& runner, Duration time) {
  Executor& executor = co_await current_executor();
  co_await with_deadline(executor.now() + time, runner.run({0, 0, 0}, faulty_task()));
}

TEST(RunActivity, CancelledAtAnyMomentEverySpanEnds) {
  for (int seconds = 0; seconds < 20; ++seconds) {
    FaultyEnvironmentKind kind([](const TaskRow&, int32_t) {
      return FaultPlan{.reset = Fault::kSleep,
                       .step = Fault::kSleep,
                       .tool = Fault::kSleep,
                       .close = Fault::kSleep,
                       .reward = Fault::kSleep,
                       .delay = std::chrono::milliseconds(1500)};
    });
    RecordingTracer tracer;
    RunActivity activity(&tracer);
    EpisodeRig rig(kind, call_first, {.activity = &activity});
    rig.latency = std::chrono::milliseconds(1500);
    Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(2));
    run(executor, play_until(rig.runner(), std::chrono::seconds(seconds)));
    EXPECT_TRUE(tracer.all_ended()) << seconds;
  }
}

// Plays an episode until its own limit, beside a watch.
Task<> play_watched(Scope& scope, EpisodeRunner* runner, RunActivity* activity,
                    std::vector<std::string>* sentences) {
  scope.spawn(watch_for_stalls(*activity, {.stall_seconds = 20},
                               [sentences](const std::string& sentence) { sentences->push_back(sentence); }),
              "watch");
  co_await runner->run({7, 0, 0}, faulty_task());
  scope.cancel();
}

TEST(StallWatch, NamesEpisodeTurnAndWhatItAwaitsOnce) {
  FaultyEnvironmentKind kind(
      [](const TaskRow&, int32_t) { return FaultPlan{.step = Fault::kHang, .step_turn = 0}; });
  RunActivity activity;
  EpisodeRig rig(kind, call_first, {.activity = &activity});
  Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(0));
  std::vector<std::string> sentences;
  run(executor, run_scope(&play_watched, &rig.runner(), &activity, &sentences));
  EXPECT_EQ(sentences, (std::vector<std::string>{"episode 7.0, turn 1, in its environment's step for 20 s"}));
}

TEST(StallWatch, ALongDecodeIsNotStuckWhileTokensCome) {
  for (const int seconds : {4, 30}) {
    FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 1}; });
    RunActivity activity;
    EpisodeRig rig(kind, call_first, {.activity = &activity});
    rig.raw = [&](const GenerateRequest&) {
      return ScriptedAnswer{.tokens = rig.tokenizer->encode_with_special("some words to say here<|im_end|>"),
                            .token_interval = std::chrono::seconds(seconds)};
    };
    Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(0));
    std::vector<std::string> sentences;
    run(executor, run_scope(&play_watched, &rig.runner(), &activity, &sentences));
    EXPECT_GE(executor.now().time_since_epoch(), std::chrono::seconds(24));
    EXPECT_EQ(sentences.empty(), seconds == 4) << ::testing::PrintToString(sentences);
  }
}

Task<> keep_many(Scope& scope, RunActivity* activity, std::vector<std::string>* sentences) {
  Executor& executor = co_await current_executor();
  scope.spawn(watch_for_stalls(*activity, {.stall_seconds = 4, .most_sentences = 2},
                               [sentences](const std::string& sentence) { sentences->push_back(sentence); }),
              "watch");
  std::vector<std::unique_ptr<EpisodeActivity>> episodes;
  for (uint64_t i = 0; i < 5; ++i) {
    episodes.push_back(std::make_unique<EpisodeActivity>(executor, activity, EpisodeId{i, 0, 0}, i == 1));
    episodes.back()->enter(TraceSpan::kQueue, 0, executor.now().time_since_epoch().count());
  }
  co_await sleep_for(std::chrono::milliseconds(4500));
  scope.cancel();
}

TEST(StallWatch, TellsOnlyTheNumberOfTheMany) {
  SimulatedExecutor executor(0);
  RunActivity activity;
  std::vector<std::string> sentences;
  run(executor, run_scope(&keep_many, &activity, &sentences));
  EXPECT_EQ(sentences,
            (std::vector<std::string>{
                "episode 0.0, turn 0, waiting for a place in the engine's batch for 4 s",
                "evaluation episode 1.0, turn 0, waiting for a place in the engine's batch for 4 s",
                "3 more episodes"}));
}

TEST(RunActivity, FlowsLeadFromEpisodesToGroupToStepToVersion) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 1}; });
  RecordingTracer tracer;
  {
    RunActivity activity(&tracer);
    EpisodeRig rig(kind, call_first, {.activity = &activity});
    rig.latency = std::chrono::seconds(1);
    Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(0));
    const std::unique_ptr<TaskSource> tasks = kind.training_tasks(0);
    Orchestrator orchestrator({.controller = {.total_steps = 3,
                                              .groups_per_batch = 2,
                                              .group_size = 2,
                                              .max_concurrent_episodes = 8,
                                              .max_ahead = 1,
                                              .batch_order = BatchOrder::kStrict},
                               .activity = &activity},
                              rig.runner(), *tasks, rig.engine);
    run(executor, train(orchestrator));
  }
  EXPECT_TRUE(tracer.all_ended());
  const auto has = [](const std::vector<uint64_t>& flows, uint64_t flow) {
    return std::ranges::find(flows, flow) != flows.end();
  };
  const auto& wait = tracer.line("group 0", "wait");
  EXPECT_EQ(tracer.line("group 0", "group").notes.at("outcome"), "trained");
  for (const char* episode : {"group 0/episode 0.0", "group 0/episode 0.1"}) {
    EXPECT_TRUE(has(wait.flows, tracer.line(episode, "close").flows.at(0))) << episode;
  }
  const auto& train = tracer.line("learner", "train");
  EXPECT_TRUE(has(train.flows, wait.flows.back()));
  const auto& publish = tracer.line("learner", "publish");
  EXPECT_TRUE(has(train.flows, publish.flows.at(0)));
  const auto served = std::ranges::find_if(
      tracer.lines, [&](const auto& line) { return line.span == "version" && line.flows == publish.flows; });
  ASSERT_NE(served, tracer.lines.end());
  EXPECT_EQ(served->begin, publish.end);
  EXPECT_EQ(std::ranges::count(tracer.spans_of("learner"), "train"), 3);
  EXPECT_GT(tracer.counts["running episodes"], 0);
  EXPECT_EQ(tracer.counts["lag"], 3);
}

}  // namespace
}  // namespace stoker
