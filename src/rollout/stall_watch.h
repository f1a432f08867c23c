#pragma once

#include <functional>
#include <string>

#include "async/task.h"
#include "rollout/run_activity.h"

namespace stoker {

struct StallWatchOptions {
  // An episode that does the same for so long without progress is stuck; may be infinite: none is.
  double stall_seconds = 120;
  int32_t most_sentences = 5;  // at once; of the others only the number is told
};

// Tells of each episode that is stuck, once: "episode 17.3, turn 2, in its tool calls for 431 s". Looks four
// times in stall_seconds, and goes on until it is cancelled. It only tells: deadlines end what is stuck
// (EpisodeLimits). References must outlive the task.
Task<> watch_for_stalls(RunActivity& activity, StallWatchOptions options,
                        std::function<void(const std::string& sentence)> report);

}  // namespace stoker
