#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "algorithm/advantage.h"
#include "algorithm/policy_loss.h"
#include "compute/batch.h"
#include "rollout/group.h"

namespace stoker {

// What becomes of groups whose rewards are all equal: their advantages are 0, no gradient flows.
enum class ZeroVariance {
  kSkip,   // no forward pass; their tokens stay in the denominator of the loss
  kTrain,  // forward and backward as any other, for their entropy and log-probabilities in the metrics
  kDrop,   // no forward pass, and their tokens leave the denominator
};

struct BatchBuilderOptions {
  AdvantageScale advantage_scale = AdvantageScale::kGroup;
  double advantage_epsilon = 1e-4;
  LossAggregation aggregation = LossAggregation::kTokenMean;
  ZeroVariance zero_variance = ZeroVariance::kSkip;
  bool mask_truncated = false;         // rows cut at a limit carry no loss and leave the denominator
  float temperature = 1.0f;            // at which the tokens were sampled; > 0
  int64_t micro_batch_tokens = 16384;  // T: forward tokens of a micro-batch; a longer row is one by itself
};

// A forest for the Learner, with what the objective needs beside it: one value a prediction.
struct MicroBatch {
  Batch batch;
  std::vector<float> behaviour_log_probability;  // [N] recorded when the token was sampled
  std::vector<double> advantage;                 // [N]
  std::vector<double> weight;                    // [N] of the token in the step's loss
  std::vector<int64_t> version;                  // [N] weights that sampled the token
  std::vector<uint8_t> mixed;                    // [N] parts of its context were computed by other weights
  int32_t rows = 0;                              // episodes
};

// What became of the episodes of a batch. Every row is counted in exactly one of: trained, zero-variance,
// unscored, failed, truncated, empty, stale.
struct BatchCounts {
  int64_t groups = 0;
  int64_t zero_variance_groups = 0;  // fewer than two rewards, or all equal
  int64_t rows = 0;
  int64_t trained_rows = 0;
  int64_t zero_variance_rows = 0;  // not trained for that reason
  int64_t unscored_rows = 0;       // done or at a limit, but without a finite reward
  std::map<std::string, int64_t>
      failed_rows;                 // by failure name: environment.*, infrastructure.*, tool.*, reward.*
  int64_t truncated_rows = 0;      // left out by mask_truncated
  int64_t empty_rows = 0;          // scored, but nothing was sampled
  int64_t stale_rows = 0;          // scored, but every sampled token is over the cap of staleness
  int64_t stale_tokens = 0;        // sampled tokens of the rows above and below that are over it: no loss
  int64_t trained_tokens = 0;      // predictions
  int64_t forward_tokens = 0;      // over all segments
  int64_t denominator_tokens = 0;  // trained ones, and those of skipped zero-variance rows
  double reward_sum = 0;           // over scored rows
  int64_t scored_rows = 0;         // with a finite reward that counts
  double reward_std_sum = 0;       // over groups with a scored row, of the group's standard deviation
  int64_t scored_groups = 0;
};

struct TrainingBatch {
  std::vector<MicroBatch> micro_batches;  // empty when there is nothing to train
  BatchCounts counts;
};

// Turns what the sampler made into what the learner computes on: advantages by group (members that failed or
// have no finite reward take no part), one weight a token from one denominator for the whole step, and
// forests cut in the order of groups and samples. Rows of a group that begin with the same tokens share them
// as one segment; the rest of a row, policy and environment tokens alike, is a child segment with predictions
// at sampled tokens only, without those older than RolloutBatch::oldest_trained_version. Tokens are taken as
// they are in the trajectory, nothing is rendered again. Throws Error(kInternal) when a row begins with a
// sampled token or a sampled token has no finite log-probability.
TrainingBatch build_training_batch(const RolloutBatch& rollout, const BatchBuilderOptions& options);

}  // namespace stoker
