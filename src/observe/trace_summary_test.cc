#include "observe/trace_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <fmt/format.h>

#include "base/testing/test_folder.h"
#include "observe/perfetto_writer.h"
#include "observe/trace_files.h"

namespace stoker {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A run of two groups of one episode a step: each episode decodes 1 s and is in its tool for `tool` s; a step
// trains 2 s and publishes 0.5 s.
class TraceSummaryTest : public testing::Test {
 protected:
  void write_run(int steps, int64_t tool, int64_t time_offset = 0) {
    PerfettoWriter writer(folder_.path(), {.time_offset = time_offset});
    const int64_t time = write_steps(writer, steps, tool);
    writer.end(versions_, time);
  }

  // The same, killed 5 s into the step that follows: its episode is in its tool for 4 s.
  void write_killed_run(int steps, int64_t tool) {
    PerfettoWriter writer(folder_.path(), {});
    const int64_t time = write_steps(writer, steps, tool);
    writer.begin(learner_, TraceSpan::kNextBatch, time);
    const TraceTrack group = writer.open_track("group 100");
    writer.begin(group, TraceSpan::kGroup, time);
    const TraceTrack episode = writer.open_track("episode 100.0", group);
    writer.begin(episode, TraceSpan::kEpisode, time);
    writer.begin(episode, TraceSpan::kDecode, time);
    writer.end(episode, time + kSecond);
    writer.begin(episode, TraceSpan::kTool, time + kSecond);
    writer.count(TraceCounter::kRunningEpisodes, time, 2);
    writer.count(TraceCounter::kEngineBusySeconds, time, steps);
    writer.count(TraceCounter::kRunningEpisodes, time + 5 * kSecond, 2);
    writer.count(TraceCounter::kEngineBusySeconds, time + 5 * kSecond, steps + 0.5);
  }

  // Steps of 10 s of which the learner trains `train` s at their end, while the engine computes `engine` of
  // every second.
  void write_shared_run(int steps, int64_t train, double engine) {
    PerfettoWriter writer(folder_.path(), {});
    learner_ = writer.open_track("learner");
    for (int second = 0; second <= 10 * steps; ++second) {
      const int64_t time = second * kSecond;
      writer.count(TraceCounter::kEngineBusySeconds, time, engine * second);
      writer.count(TraceCounter::kRunningEpisodes, time, 2);
      if (second % 10 == 0 && second > 0) {
        writer.end(learner_, time);
        writer.begin(learner_, TraceSpan::kPublish, time);
        writer.end(learner_, time);
      }
      if (second == 10 * steps) break;
      if (second % 10 == 0) writer.begin(learner_, TraceSpan::kNextBatch, time);
      if (second % 10 != 10 - train) continue;
      writer.end(learner_, time);
      writer.begin(learner_, TraceSpan::kTrain, time);
    }
  }

  int64_t write_steps(Tracer& writer, int steps, int64_t tool) {
    learner_ = writer.open_track("learner");
    versions_ = writer.open_track("weights served");
    writer.begin(versions_, TraceSpan::kVersion, 0);
    int64_t time = 0;
    for (int step = 0; step < steps; ++step) time = write_step(writer, step, time, tool);
    return time;
  }

  int64_t write_step(Tracer& tracer, int step, int64_t begin, int64_t tool) {
    const int64_t ready = begin + (1 + tool) * kSecond;
    tracer.begin(learner_, TraceSpan::kNextBatch, begin);
    tracer.count(TraceCounter::kRunningEpisodes, begin, 2);
    tracer.count(TraceCounter::kEngineBusySeconds, begin, step);
    for (int group = 0; group < 2; ++group) write_group(tracer, 2 * step + group, begin, ready);
    tracer.end(learner_, ready);
    tracer.count(TraceCounter::kRunningEpisodes, ready, 0);
    tracer.count(TraceCounter::kEngineBusySeconds, ready, step + 1);
    tracer.begin(learner_, TraceSpan::kTrain, ready);
    tracer.end(learner_, ready + 2 * kSecond);
    tracer.begin(learner_, TraceSpan::kPublish, ready + 2 * kSecond);
    const int64_t end = ready + 2 * kSecond + kSecond / 2;
    tracer.end(learner_, end);
    tracer.end(versions_, end);
    tracer.begin(versions_, TraceSpan::kVersion, end);
    return end;
  }

  void write_group(Tracer& tracer, int ordinal, int64_t begin, int64_t end) {
    const TraceTrack group = tracer.open_track(fmt::format("group {}", ordinal));
    tracer.begin(group, TraceSpan::kGroup, begin);
    const TraceTrack episode = tracer.open_track(fmt::format("episode {}.0", ordinal), group);
    tracer.begin(episode, TraceSpan::kEpisode, begin);
    tracer.begin(episode, TraceSpan::kDecode, begin);
    tracer.end(episode, begin + kSecond);
    tracer.begin(episode, TraceSpan::kTool, begin + kSecond);
    tracer.end(episode, end);
    const TraceNote note{.name = "outcome", .text = ordinal == 1 ? "limit.turns" : "done"};
    tracer.end(episode, end, {.notes = {&note, 1}});
    tracer.close_track(episode);
    tracer.begin(group, TraceSpan::kWait, end);
    tracer.end(group, end);
    tracer.end(group, end);
    tracer.close_track(group);
  }

  TraceSummary summary() const { return summarize_trace(trace_files(folder_.path()), settings_); }

  TestFolder folder_;
  TraceTrack learner_, versions_;
  TraceRunSettings settings_{.groups_per_batch = 2, .max_concurrent_episodes = 8};
};

TEST_F(TraceSummaryTest, SaysWhereTheTimeWent) {
  write_run(4, 9);
  const TraceSummary summary = this->summary();
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.versions, 5);
  EXPECT_DOUBLE_EQ(summary.window, 4 * 12.5);
  EXPECT_EQ(summary.outcomes, (std::map<std::string, int64_t>{{"done", 7}, {"limit.turns", 1}}));
  EXPECT_DOUBLE_EQ(summary.episode_seconds, 8 * 10);
  EXPECT_EQ(summary.episode_spans.at("tool").count, 8);
  EXPECT_DOUBLE_EQ(summary.episode_spans.at("tool").mean, 9);
  EXPECT_DOUBLE_EQ(summary.episode_spans.at("decode").total, 8);
  EXPECT_DOUBLE_EQ(summary.episode_spans.at("other").total, 0);
  EXPECT_DOUBLE_EQ(summary.learner_spans.at("await").total, 40);
  EXPECT_DOUBLE_EQ(summary.learner_spans.at("publish").longest, 0.5);
  EXPECT_DOUBLE_EQ(summary.learner_busy, 2.5 / 12.5);
  EXPECT_NEAR(summary.engine_busy, 4.0 / (4 * 12.5 - 2.5), 1e-9);  // from the first to the last count
  EXPECT_NEAR(summary.running_mean, 2 * 40 / 47.5, 1e-9);
  EXPECT_DOUBLE_EQ(summary.group_ready_mean, 10);
  ASSERT_EQ(summary.tail.size(), 5u);
  EXPECT_DOUBLE_EQ(summary.tail[0].seconds, 10);
  EXPECT_DOUBLE_EQ(summary.tail[0].parts.at("tool"), 9);
  const std::string text = to_text(summary);
  EXPECT_THAT(text, testing::HasSubstr("utilisation of the learner       20 %"));
  EXPECT_THAT(text, testing::HasSubstr("limit.turns"));
  EXPECT_THAT(text, testing::HasSubstr(summary.advice.sentence));
}

TEST_F(TraceSummaryTest, ARunThatWaitsForToolsIsShortOfEpisodesInFlight) {
  write_run(4, 9);
  const TraceAdvice advice = summary().advice;
  EXPECT_EQ(advice.short_of, "episodes in flight");
  EXPECT_EQ(advice.knob, "rollout.max_ahead");
  EXPECT_EQ(advice.setting, 3);  // 10 s of a group over 3.55 s of compute a step
  EXPECT_NEAR(advice.gain, 12.5 / 3.55 - 1, 0.02);
  EXPECT_THAT(advice.sentence, testing::HasSubstr("rollout.max_ahead to 3"));
}

// Its bound is advised only where that is what holds it back.
TEST_F(TraceSummaryTest, ARunThatFindsItsDepthIsNotToldToSetIt) {
  write_run(4, 9);
  settings_.max_ahead = 1;
  settings_.adaptive_most = 8;
  TraceAdvice advice = summary().advice;
  EXPECT_EQ(advice.short_of, "episodes in flight");
  EXPECT_EQ(advice.knob, "");
  EXPECT_NEAR(advice.gain, 12.5 / 3.55 - 1, 0.02);
  EXPECT_THAT(advice.sentence, testing::HasSubstr("at depth 1"));
  EXPECT_THAT(advice.sentence, testing::HasSubstr("depth 3 would"));
  settings_.max_ahead = settings_.adaptive_most = 2;
  advice = summary().advice;
  EXPECT_EQ(advice.knob, "rollout.max_ahead");
  EXPECT_EQ(advice.setting, 3);
}

TEST_F(TraceSummaryTest, ARunWhoseSlotsAreTakenIsShortOfThem) {
  settings_.max_concurrent_episodes = 2;
  write_run(4, 90);
  const TraceAdvice advice = summary().advice;
  EXPECT_EQ(advice.short_of, "slots");
  EXPECT_EQ(advice.knob, "rollout.max_concurrent_episodes");
  EXPECT_EQ(advice.setting, 58);  // 1.1 times 2 episodes of 91 s over 3.51 s of compute a step
}

TEST_F(TraceSummaryTest, TheAdviceForSlotsIsNeverFewerThanThereAre) {
  settings_.max_concurrent_episodes = 20;
  const TraceSummary summary{.window = 40,
                             .steps = 10,
                             .episode_spans = {{"episode", {.count = 20, .total = 200, .mean = 10}}},
                             .learner_spans = {{"publish", {.count = 10}}},
                             .engine_busy = 0.25,
                             .learner_busy = 0.5,
                             .learner_compute = 0.5,
                             .running_mean = 20};
  const TraceAdvice advice = advise(summary, settings_);
  EXPECT_EQ(advice.short_of, "slots");
  EXPECT_EQ(advice.setting, 21);  // 8 would fill the cores
  EXPECT_NEAR(advice.gain, 4.0 / 3 - 1, 1e-9);
}

// Steps whose groups lacked variance are trained, in no time, and not published.
TEST_F(TraceSummaryTest, ARunThatHasNothingToTrainIsToldSoAndNoKnobOfSpeed) {
  TraceSummary summary{.window = 40,
                       .steps = 10,
                       .episode_spans = {{"episode", {.count = 20, .total = 200, .mean = 10}}},
                       .learner_spans = {{"train", {.count = 10}}},
                       .running_mean = 1};
  TraceAdvice advice = advise(summary, settings_);
  EXPECT_EQ(advice.short_of, "something to learn");
  EXPECT_EQ(advice.knob, "");
  EXPECT_THAT(advice.sentence, testing::StartsWith("10 of 10 steps had nothing to train"));
  EXPECT_THAT(advice.sentence, testing::HasSubstr("easier tasks"));
  EXPECT_THAT(advice.sentence, testing::Not(testing::HasSubstr("max_ahead")));
  summary.learner_spans["publish"].count = 4;
  EXPECT_EQ(advise(summary, settings_).short_of, "something to learn");
  summary.learner_spans["publish"].count = 5;
  EXPECT_EQ(advise(summary, settings_).short_of, "episodes in flight");
}

TEST_F(TraceSummaryTest, AResumedRunIsTheSumOfItsStarts) {
  write_killed_run(2, 9);
  write_run(2, 9, 1000 * kSecond);
  const TraceSummary summary = this->summary();
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.versions, 6);
  EXPECT_DOUBLE_EQ(summary.window, 4 * 12.5);
  EXPECT_EQ(summary.outcomes,
            (std::map<std::string, int64_t>{{"done", 6}, {"limit.turns", 2}, {"running", 1}}));
  EXPECT_DOUBLE_EQ(summary.episode_seconds, 8 * 10);
  EXPECT_EQ(summary.episode_spans.at("episode").count, 8);
  EXPECT_EQ(summary.episode_spans.at("decode").count, 8);
  EXPECT_DOUBLE_EQ(summary.episode_spans.at("tool").longest, 9);
  EXPECT_EQ(summary.group_spans.at("group").count, 8);
  EXPECT_DOUBLE_EQ(summary.group_spans.at("group").longest, 10);
  EXPECT_DOUBLE_EQ(summary.learner_spans.at("await").total, 40);
  EXPECT_FALSE(summary.learner_spans.contains("other"));
  EXPECT_DOUBLE_EQ(summary.learner_busy, 2.5 / 12.5);
  EXPECT_DOUBLE_EQ(summary.learner_compute, 2.5 / 12.5);
  EXPECT_NEAR(summary.engine_busy, (2.5 + 2) / (30 + 22.5), 1e-9);
  EXPECT_NEAR(summary.running_mean, 2 * (25 + 20) / (30 + 22.5), 1e-9);
  EXPECT_DOUBLE_EQ(summary.group_ready_mean, 10);
}

TEST_F(TraceSummaryTest, AnEpisodeOfALiveRunIsInTheTailOnly) {
  write_killed_run(1, 0);
  const TraceSummary summary = this->summary();
  ASSERT_EQ(summary.tail.size(), 3u);
  EXPECT_EQ(summary.tail[0].name, "episode 100.0");
  EXPECT_EQ(summary.tail[0].outcome, "running");
  EXPECT_DOUBLE_EQ(summary.tail[0].seconds, 5);
  EXPECT_DOUBLE_EQ(summary.tail[0].parts.at("tool"), 4);
  EXPECT_DOUBLE_EQ(summary.episode_spans.at("episode").longest, 1);
}

TEST_F(TraceSummaryTest, SharedCoresAreCountedOnce) {
  write_shared_run(4, 9, 0.6);
  const TraceSummary summary = this->summary();
  EXPECT_NEAR(summary.engine_busy, 0.6, 1e-9);
  EXPECT_NEAR(summary.learner_busy, 0.9, 1e-9);
  EXPECT_NEAR(summary.learner_compute, 0.9 * 0.4, 1e-9);
  EXPECT_EQ(summary.advice.short_of, "compute");
  EXPECT_EQ(summary.advice.knob, "rollout.limits.max_turn_tokens");  // the engine works more than the learner
  EXPECT_NEAR(summary.advice.gain, 0.96 / 0.66 - 1, 1e-9);
}

TEST_F(TraceSummaryTest, ALearnerBesideTheEngineLeavesCoresIdle) {
  write_shared_run(4, 6, 0.5);
  const TraceSummary summary = this->summary();
  EXPECT_NEAR(summary.learner_compute, 0.3, 1e-9);
  EXPECT_EQ(summary.advice.short_of, "episodes in flight");  // 8 of 10 s are computed
  EXPECT_THAT(summary.advice.sentence, testing::HasSubstr("the learner works 3.00 s and the engine 5.00 s"));
}

TEST_F(TraceSummaryTest, ARunThatComputesAllTheTimeIsShortOfCompute) {
  write_run(4, 0);
  const TraceAdvice advice = summary().advice;
  EXPECT_EQ(advice.short_of, "compute");
  EXPECT_GT(advice.gain, 0.3);
  settings_.shared_cores = false;
  EXPECT_EQ(summary().advice.short_of, "episodes in flight");  // the learner works 2.5 of 3.5 s
}

TEST_F(TraceSummaryTest, OneStepIsTooLittleToTell) {
  write_run(1, 9);
  EXPECT_EQ(summary().advice.short_of, "steps");
  EXPECT_EQ(summarize_trace({}, settings_).steps, 0);
}

}  // namespace
}  // namespace stoker
