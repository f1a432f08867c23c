#pragma once

#include <cstdint>

#include "algorithm/mismatch.h"
#include "algorithm/policy_loss.h"
#include "async/task.h"
#include "base/metrics.h"
#include "compute/learner.h"
#include "train/batch_builder.h"

namespace stoker {

// What one update did, as sums over its trained tokens.
struct PolicyStepResult {
  StepResult step;
  double loss = 0;  // of the whole step
  double entropy_sum = 0;
  double clipped_low = 0;
  double clipped_high = 0;
  double ratio_sum = 0;
  double ratio_max = 0;
  int64_t tokens = 0;
  int64_t lag_sum = 0;  // of a token: the learner's version less the version that sampled it
  int64_t lag_max = 0;
  // Recorded against recomputed log-probabilities. At lag 0 with an unmixed context both are of the same
  // weights.
  Mismatch current;  // lag 0, whole context computed by one version
  Mismatch lagged;   // lag > 0
  Mismatch mixed;    // lag 0, parts of the context's cache computed by older weights
};

// One optimizer update: forward, the clipped policy loss against the recorded log-probabilities, and backward
// for each micro-batch in order, then the step. There must be a micro-batch. Throws Error(kInternal) before
// the update when the loss is not finite and after it when the gradient is not; then the weights must not be
// used.
Task<PolicyStepResult> policy_step(Learner& learner, const TrainingBatch& batch,
                                   const PolicyLossOptions& options, double learning_rate);

// loss, entropy, grad_norm, clip_ratio/*, sampling/*, staleness/*: names of TRL where it has them.
void add_metrics(const PolicyStepResult& result, MetricMap& metrics);
// reward, reward_std, frac_reward_zero_std, and how many rows and tokens were trained or left out and why.
void add_metrics(const BatchCounts& counts, MetricMap& metrics);

}  // namespace stoker
