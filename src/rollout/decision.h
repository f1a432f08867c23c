#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "trajectory/episode_record.h"

namespace stoker {

enum class RunEventKind {
  kStarted,  // version, trained_batches, first_ordinal, open_ordinals: where the run (or a resumed one)
             // begins
  kEpisodeFinished,  // episode, failure name or empty, scored, oldest_version
  kTrainerReady,     // the learner wants a batch
  kStepFinished,     // version: of the weights after the step
  kStepSkipped,      // the last batch had nothing to train: it counts, the version stays
  kPublished,        // version: what the engine serves
  kStopRequested,    // no new work; what is in flight is cancelled
};

// One thing that happened, with all that a decision may depend on. The log of a run is its events in order.
struct RunEvent {
  RunEventKind kind = RunEventKind::kStarted;
  int64_t time = 0;  // ns of the Executor clock
  EpisodeId episode;
  std::string failure;          // "environment.timeout"; empty: done
  bool scored = false;          // the episode has a reward
  int64_t oldest_version = -1;  // of a sampled token of the episode; -1: nothing sampled
  int64_t sampled_tokens = 0;   // by the engine since it began; told where the depth is adaptive
  int64_t version = 0;
  int64_t trained_batches = 0;  // before this start
  uint64_t first_ordinal = 0;
  std::vector<uint64_t> open_ordinals;  // below first_ordinal, not yet trained: they come first

  // {"event": "episode_finished", "time": 12, "episode": "17.3.1", ...}: only what the kind carries.
  Json to_json() const;
  static RunEvent from_json(const Json& json);  // throws Error(kInput)
  bool operator==(const RunEvent&) const = default;
};

enum class DecisionKind {
  kStartEpisode,   // episode; delay
  kCancelEpisode,  // episode
  kConsumeBatch,   // groups: the ordinals of one step, ascending; version: what they are trained on
  kDropGroup,      // groups: one ordinal; reason
  kPublish,        // version
  kFinish,         // reason; the run has done its steps, was stopped, or nothing more can come
  kGiveUp,         // reason; the run cannot go on
  kSetAside,       // groups: one ordinal; reason: as kDropGroup, of a task that fails every time
  kSetDepth,       // depth: what admission allows from here on; reason
};

struct Decision {
  DecisionKind kind = DecisionKind::kFinish;
  EpisodeId episode;
  std::vector<uint64_t> groups;
  int64_t version = 0;
  std::string reason;
  int64_t delay = 0;  // ns to wait before it is executed
  int32_t depth = 0;

  // {"decision": "start_episode", "episode": "17.3.1"}: only what the kind carries.
  Json to_json() const;
  static Decision from_json(const Json& json);  // throws Error(kInput)
  bool operator==(const Decision&) const = default;
};

// Reads "17.3" or "17.3.1", as EpisodeId::to_string writes it; throws Error(kInput).
EpisodeId parse_episode_id(std::string_view text);

}  // namespace stoker
