#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trajectory/episode_record.h"

namespace stoker {

// A finished group: the samples of one task, by sample index. Members that failed for good are present with
// their failure and without a reward; they take no part in the group's statistics.
struct Group {
  uint64_t task_ordinal = 0;
  std::string task_id;
  int64_t dispatch_version = 0;  // the engine's version when the group was admitted
  std::vector<EpisodeRecord> episodes;
};

// What one optimizer step consumes. Each group is consumed exactly once. Groups are in task order.
struct RolloutBatch {
  int64_t step = 0;                    // the version that this batch is trained on (0 for the first)
  int64_t oldest_trained_version = 0;  // tokens of older versions carry no loss (StaleAction::kMask)
  std::vector<Group> groups;
};

}  // namespace stoker
