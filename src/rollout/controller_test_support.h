#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rollout/controller.h"

// Events of a run, and what its decisions say, for the tests of the controller.
namespace stoker {

inline std::vector<Decision> of_kind(const std::vector<Decision>& decisions, DecisionKind kind) {
  std::vector<Decision> found;
  for (const Decision& decision : decisions) {
    if (decision.kind == kind) found.push_back(decision);
  }
  return found;
}

inline RunEvent started(int64_t version = 0, uint64_t first_ordinal = 0) {
  return {.kind = RunEventKind::kStarted, .version = version, .first_ordinal = first_ordinal};
}
inline RunEvent scored(EpisodeId id, int64_t version = 0) {
  return {.kind = RunEventKind::kEpisodeFinished, .episode = id, .scored = true, .oldest_version = version};
}
inline RunEvent failed(EpisodeId id, const std::string& failure) {
  return {.kind = RunEventKind::kEpisodeFinished, .episode = id, .failure = failure};
}
inline RunEvent trainer_ready() { return {.kind = RunEventKind::kTrainerReady}; }
inline RunEvent step_finished(int64_t version) {
  return {.kind = RunEventKind::kStepFinished, .version = version};
}
inline RunEvent published(int64_t version) { return {.kind = RunEventKind::kPublished, .version = version}; }

inline std::vector<uint64_t> consumed(const std::vector<Decision>& decisions) {
  const std::vector<Decision> batches = of_kind(decisions, DecisionKind::kConsumeBatch);
  return batches.empty() ? std::vector<uint64_t>{} : batches[0].groups;
}

}  // namespace stoker
