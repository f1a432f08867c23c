#include "rollout/tool_latency.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "async/testing.h"
#include "rollout/rollout_test_support.h"

namespace stoker {
namespace {

using testing::FaultPlan;
using testing::FaultyEnvironmentKind;

const ToolLatency kHeavyLatency{.mean_seconds = 4, .law = {.kind = "lognormal", .cv = 2}};

TEST(ToolLatency, IsAFunctionOfSeedEpisodeAndCall) {
  std::set<double> seen;
  for (const EpisodeId& episode :
       {EpisodeId{5, 1, 0}, EpisodeId{5, 2, 0}, EpisodeId{6, 1, 0}, EpisodeId{5, 1, 1}}) {
    for (uint64_t seed : {7, 8}) {
      for (uint32_t call : {0, 1, 2}) {
        const double seconds = tool_latency_seconds(kHeavyLatency, seed, episode, call);
        EXPECT_EQ(seconds, tool_latency_seconds(kHeavyLatency, seed, episode, call));
        EXPECT_GT(seconds, 0);
        seen.insert(seconds);
      }
    }
  }
  EXPECT_EQ(seen.size(), 24u);  // no two of them share a draw
}

TEST(ToolLatency, ScalesWithItsMeanAndIsCutAtTheTimeOut) {
  ToolLatency cut = kHeavyLatency, doubled = kHeavyLatency;
  cut.law.time_out = 1.5;
  doubled.mean_seconds = 8;
  constexpr int kEpisodes = 20'000;
  double sum = 0;
  int cut_off = 0;
  for (uint64_t ordinal = 0; ordinal < kEpisodes; ++ordinal) {
    const EpisodeId episode{ordinal, 0, 0};
    const double seconds = tool_latency_seconds(kHeavyLatency, 3, episode, 0);
    sum += seconds;
    cut_off += seconds > 6;
    EXPECT_DOUBLE_EQ(tool_latency_seconds(cut, 3, episode, 0), std::min(seconds, 6.0));
    EXPECT_DOUBLE_EQ(tool_latency_seconds(doubled, 3, episode, 0), 2 * seconds);
  }
  EXPECT_NEAR(sum / kEpisodes, 4, 0.3);
  EXPECT_GT(cut_off, 0);
}

// Plays an episode that calls its tool twice and then answers; gives its seconds.
double seconds_of_slow_episode(uint64_t schedule, const ToolLatency& latency, EpisodeId id,
                               FaultyEnvironmentKind& kind) {
  const std::string call = "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call>";
  EpisodeRig rig(
      kind, [&](const GenerateRequest& request) { return request.stream.turn == 0 ? call + call : "done"; },
      {.run_seed = 3, .tool_latency = latency});
  Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(schedule));
  const TaskRow task{.id = "faulty/0", .fields = Json::object({{"prompt", "Task?"}, {"ordinal", 0}})};
  const EpisodeRecord record = run(executor, rig.runner().run(id, task));
  EXPECT_FALSE(record.failure) << record.failure->name();
  EXPECT_EQ(record.tool_errors, 0);
  return to_seconds(Duration(record.end_time - record.start_time));
}

TEST(ToolLatency, EachCallOfAnEpisodeWaitsForItself) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 1}; });
  for (const EpisodeId& id : {EpisodeId{5, 1, 0}, EpisodeId{5, 2, 0}}) {
    // Calls of one turn run side by side: the longer wait is seen, under whichever schedule.
    const double expected = std::max(tool_latency_seconds(kHeavyLatency, 3, id, 0),
                                     tool_latency_seconds(kHeavyLatency, 3, id, 1));
    for (uint64_t schedule : {0, 1, 2})
      EXPECT_NEAR(seconds_of_slow_episode(schedule, kHeavyLatency, id, kind), expected, 1e-6);
  }
  EXPECT_EQ(seconds_of_slow_episode(0, {}, {5, 1, 0}, kind), 0);
  EXPECT_EQ(kind.counts().tool_calls, 14);
}

TEST(ToolLatency, AWaitBeyondTheToolsDeadlineIsATimeOut) {
  FaultyEnvironmentKind kind([](const TaskRow&, int32_t) { return FaultPlan{.turns = 1}; });
  EpisodeRig rig(kind,
                 [](const GenerateRequest&) {
                   return "<tool_call>\n{\"name\": \"probe\", \"arguments\": {}}\n</tool_call>";
                 },
                 {.tool_latency = {.mean_seconds = 31, .law = {.kind = "constant"}}});
  Executor& executor = rig.own(std::make_unique<SimulatedExecutor>(0));
  const TaskRow task{.id = "faulty/0", .fields = Json::object({{"prompt", "Task?"}, {"ordinal", 0}})};
  const EpisodeRecord record = run(executor, rig.runner().run({0, 0, 0}, task));
  ASSERT_TRUE(record.failure);
  EXPECT_EQ(record.failure->name(), "tool.timeout");
  EXPECT_EQ(kind.counts().tool_calls, 0);
  EXPECT_EQ(kind.counts().closes, 1);
}

}  // namespace
}  // namespace stoker
