#pragma once

#include <cstdint>

#include "rollout/group.h"

namespace stoker {

// A control experiment: hands the rewards of the batch's scored episodes to one another at random
// (Fisher-Yates keyed by (seed, batch.step)), across groups. What a policy still learns from them it did not
// learn from its reward.
RolloutBatch with_permuted_rewards(RolloutBatch batch, uint64_t seed);

}  // namespace stoker
