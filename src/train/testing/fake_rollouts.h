#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace stoker::testing {

struct FakeRolloutOptions {
  int32_t groups_per_batch = 4;
  int32_t group_size = 4;
  int64_t total_steps = 1 << 20;  // batches; then the source is over
  int32_t lag = 0;                // the sampler's weights are so many steps behind
  double latency_seconds = 0.5;   // of a batch
  uint64_t seed = 1;
  uint64_t first_ordinal = 0;
  double publish_seconds = 0;  // until the weights of a step serve
  // Changes an episode after it was sampled; may be empty.
  std::function<void(EpisodeRecord&)> edit;
};

// Plays episodes of a two-turn game against TableLearner's model, synchronously and as a pure function of
// ordinal, sample and weights: prompt of 3 tokens that depends on the ordinal, 4 sampled tokens, an
// observation of 2 tokens, 3 sampled tokens. Reward: the share of sampled tokens that are even.
class FakeRollouts final : public RolloutSource {
 public:
  FakeRollouts(FakeRolloutOptions options, WeightsPtr weights);

  Task<std::optional<RolloutBatch>> next_batch() override;
  Task<> step_finished(WeightsPtr weights) override;
  uint64_t next_ordinal() const override { return next_ordinal_; }
  std::vector<uint64_t> open_ordinals() const override { return {}; }

  EpisodeRecord play(uint64_t ordinal, uint32_t sample) const;
  int64_t batches() const { return batches_; }
  int64_t steps_finished() const { return steps_finished_; }

 private:
  void sample(Trajectory& trajectory, int32_t turn, int32_t count, const EpisodeId& id) const;

  FakeRolloutOptions options_;
  std::deque<WeightsPtr> weights_;  // the newest last
  uint64_t next_ordinal_;
  int64_t batches_ = 0;
  int64_t steps_finished_ = 0;
};

}  // namespace stoker::testing
