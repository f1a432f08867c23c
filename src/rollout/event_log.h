#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "rollout/controller.h"

namespace stoker {

// The event log of a run, JSON Lines: the controller's options first, then each event with the decisions that
// it led to. A person can read it, and it replays.
//
//   {"event_log":1,"options":{"total_steps":40,...}}
//   {"event":"started","time":0,"version":0,...,"decisions":[{"decision":"start_episode",...}]}

Json event_log_header(const ControllerOptions& options);
Json event_log_line(const RunEvent& event, const std::vector<Decision>& decisions);

struct ReplayReport {
  int64_t events = 0;
  int64_t decisions = 0;
  uint64_t digest = 0;                    // of all decisions, in order
  std::optional<std::string> difference;  // the first event whose decisions differ from the logged ones
};

// Gives the logged events to a new controller and compares its decisions with the logged ones. A resumed run
// goes on in the same log behind a header of its own. Lines that are no event log throw Error(kInput) with
// the line's number (from 1).
ReplayReport replay_event_log(std::span<const Json> lines);

}  // namespace stoker
