#include "train/permute_rewards.h"

#include <utility>
#include <vector>

#include "base/random.h"

namespace stoker {

RolloutBatch with_permuted_rewards(RolloutBatch batch, uint64_t seed) {
  std::vector<EpisodeRecord*> scored;
  for (Group& group : batch.groups) {
    for (EpisodeRecord& episode : group.episodes) {
      if (episode.reward) scored.push_back(&episode);
    }
  }
  RandomStream random({.run_seed = seed,
                       .purpose = RandomPurpose::kShuffle,
                       .task_ordinal = static_cast<uint64_t>(batch.step)});
  for (size_t i = scored.size(); i > 1; --i) {
    std::swap(scored[i - 1]->reward, scored[random.below(i)]->reward);
  }
  return batch;
}

}  // namespace stoker
