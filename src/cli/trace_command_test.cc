#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "cli/run_trace.h"
#include "rollout/event_log.h"

namespace stoker {
namespace {

std::string header(bool adaptive, int32_t max_ahead) {
  ControllerOptions options{.max_ahead = max_ahead, .adaptive_depth = adaptive};
  return event_log_header(options).dump() + "\n";
}

std::string depth_set(int32_t depth, const std::string& reason) {
  const Decision decision{.kind = DecisionKind::kSetDepth, .reason = reason, .depth = depth};
  return event_log_line({.kind = RunEventKind::kStepFinished, .version = 1}, {decision}).dump() + "\n";
}

// A run begins at depth 1, and so does a resumed one, whatever it had found before.
TEST(TraceCommand, TheDepthIsThatOfTheLastStart) {
  const TestFolder folder;
  const auto write = [&](const std::string& log) { folder.write("events.jsonl", log); };
  write(header(true, 8));
  EXPECT_EQ(describe_depth(folder.path()), "Adaptive depth: 1, without a change.\n");
  EXPECT_EQ(trace_settings(folder.path()).max_ahead, 1);
  EXPECT_EQ(trace_settings(folder.path()).adaptive_most, 8);

  const std::string found = header(true, 8) + depth_set(2, "it waited") + depth_set(3, "it waited more");
  write(found);
  EXPECT_EQ(describe_depth(folder.path()),
            "Adaptive depth: 3 at the end, after 2 changes; the last one since it waited more.\n");
  EXPECT_EQ(trace_settings(folder.path()).max_ahead, 3);

  write(found + header(true, 8));
  EXPECT_EQ(describe_depth(folder.path()),
            "Adaptive depth: 1, without a change since the run was resumed.\n");
  EXPECT_EQ(trace_settings(folder.path()).max_ahead, 1);

  write(found + header(true, 8) + depth_set(2, "it waits"));
  EXPECT_EQ(describe_depth(folder.path()),
            "Adaptive depth: 2 at the end, after 1 change since the run was resumed; the last one since it "
            "waits.\n");

  write(found + header(false, 4));
  EXPECT_EQ(describe_depth(folder.path()), "");
  EXPECT_EQ(trace_settings(folder.path()).max_ahead, 4);
  EXPECT_EQ(trace_settings(folder.path()).adaptive_most, 0);

  write("");
  EXPECT_THROW(describe_depth(folder.path()), Error);
}

}  // namespace
}  // namespace stoker
