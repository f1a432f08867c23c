#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trajectory/trajectory.h"

namespace stoker {

// Names an episode within a run.
struct EpisodeId {
  uint64_t task_ordinal = 0;  // position of its task in the task stream
  uint32_t sample = 0;        // index within the group
  uint32_t attempt = 0;       // 0, then one more a retry

  bool operator==(const EpisodeId&) const = default;
  auto operator<=>(const EpisodeId&) const = default;
  std::string to_string() const;                                 // "17.3" or, for a retry, "17.3.1"
  static std::optional<EpisodeId> parse(std::string_view text);  // the reverse of to_string; empty: no id
};

// A finished episode: tokens, how it ended, what it earned. `failure` empty: done. `reward` empty: not
// scored, which is not zero.
struct EpisodeRecord {
  EpisodeId id;
  std::string task_id;            // the task's own name, unique within its environment
  std::string purpose = "train";  // "train", "evaluate"
  Trajectory trajectory;
  std::optional<Failure> failure;
  std::optional<double> reward;           // total, as trained
  std::map<std::string, double> rewards;  // by reward function, unweighted
  bool success = false;                   // as the environment defines it
  int32_t tool_calls = 0;
  int32_t tool_errors = 0;
  int64_t start_time = 0;  // ns of the Executor clock
  int64_t end_time = 0;

  // A reward that is not finite throws Error(kInternal): it has no JSON form and is a reward failure instead.
  Json to_json() const;
  static EpisodeRecord from_json(const Json& json);  // throws Error(kInput)
  bool operator==(const EpisodeRecord&) const = default;
};

}  // namespace stoker
