#pragma once

#include <cstdint>

#include "rollout/agent.h"
#include "rollout/latency_law.h"
#include "trajectory/episode_record.h"

namespace stoker {

// A wait before every tool call, as a distant or busy server would cause it: to see what a run makes of slow
// tools. The wait is `mean_seconds` times a draw of the law, cut at law.time_out times the mean.
struct ToolLatency {
  double mean_seconds = 0;  // 0: none
  LatencyLaw law;

  template <typename V>
  void for_each_field(V& visit) {
    visit("mean_seconds", mean_seconds, "Mean wait before a tool call; 0: none.", at_least(0));
    law.for_each_field(visit);
  }
};

// Seconds before the call with this number, from 0, of an episode. A function of its arguments alone, so that
// runs of equal seed see the same waits, whatever else they are set to. Every member of a group, every call
// and every further attempt draws for itself.
double tool_latency_seconds(const ToolLatency& latency, uint64_t run_seed, const EpisodeId& episode,
                            uint32_t call);

// The tools of one episode behind their waits; calls are numbered in the order in which they begin, over all
// tools. Gives `tools` itself when there is no latency. A wait ends with the cancellation of its call.
Tools with_latency(Tools tools, const ToolLatency& latency, uint64_t run_seed, const EpisodeId& episode);

}  // namespace stoker
