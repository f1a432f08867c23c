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
  void write_run(int steps, int64_t tool) {
    PerfettoWriter writer(folder_.path(), {});
    learner_ = writer.open_track("learner");
    versions_ = writer.open_track("weights served");
    writer.begin(versions_, TraceSpan::kVersion, 0);
    int64_t time = 0;
    for (int step = 0; step < steps; ++step) time = write_step(writer, step, time, tool);
    writer.end(versions_, time);
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

TEST_F(TraceSummaryTest, ARunWhoseSlotsAreTakenIsShortOfThem) {
  settings_.max_concurrent_episodes = 2;
  write_run(4, 90);
  const TraceAdvice advice = summary().advice;
  EXPECT_EQ(advice.short_of, "slots");
  EXPECT_EQ(advice.knob, "rollout.max_concurrent_episodes");
  EXPECT_GT(advice.setting, 2 * 91 / 4);
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
