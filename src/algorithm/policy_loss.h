#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stoker {

// One value for each trained token of a micro-batch.
struct PolicyLossInput {
  std::span<const float> log_probability;            // under the current weights
  std::span<const float> behaviour_log_probability;  // recorded when the token was sampled
  std::span<const double> advantage;
  std::span<const double> weight;  // in the aggregated loss (aggregation_weights)
};

struct PolicyLossOptions {
  double clip_low = 0.2;    // ratio floor 1 - clip_low
  double clip_high = 0.28;  // ratio ceiling 1 + clip_high (DAPO's clip-higher)
};

// An unreduced sum, so that any split into micro-batches adds up to the same loss, and what to log.
struct PolicyLossResult {
  double loss = 0;                 // sum over tokens of weight * loss
  std::vector<float> coefficient;  // d loss / d log_probability
  // Sums over tokens, to be divided by `tokens`.
  double clipped_low = 0;   // tokens clipped with negative advantage
  double clipped_high = 0;  // tokens clipped with positive advantage
  double ratio_sum = 0;
  double ratio_max = 0;
  int64_t tokens = 0;
};

// PPO/GRPO clip (Schulman et al. 2017, equation 7; asymmetric as in Yu et al. 2025, DAPO, section 3.1):
// -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) with r = exp(log_probability - behaviour). The log-ratio
// is clamped to [-20, 20] before exp; outside, a token has no gradient. Throws Error(kInternal) when the
// arrays differ in length.
PolicyLossResult clipped_policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options);

// How per-token losses add up to the batch's (Yu et al. 2025, DAPO, section 3.3).
enum class LossAggregation {
  kTokenMean,     // over all tokens of the batch
  kSequenceMean,  // mean over each sequence's tokens, then over the sequences
};

// The weight of each token of each sequence of an optimizer step. `tokens_per_sequence` counts tokens that
// belong to the denominator, whether or not a gradient flows through them; sequences with none get weight 0
// and do not enter a mean. The result holds one weight a sequence, for each of its tokens.
std::vector<double> aggregation_weights(std::span<const int64_t> tokens_per_sequence,
                                        LossAggregation aggregation);

}  // namespace stoker
