#include "train/policy_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "train/divergence.h"

namespace stoker {
namespace {

void measure_staleness(const MicroBatch& micro_batch, const Scores& scores, int64_t version,
                       PolicyStepResult& result) {
  for (size_t i = 0; i < micro_batch.version.size(); ++i) {
    int64_t lag = version - micro_batch.version[i];
    if (lag < 0) {
      throw internal_error(
          fmt::format("A token was sampled by version {}, which the learner, at version {}, has not "
                      "made yet.",
                      micro_batch.version[i], version));
    }
    result.lag_sum += lag;
    result.lag_max = std::max(result.lag_max, lag);
    Mismatch& mismatch = lag > 0 ? result.lagged : micro_batch.mixed[i] != 0 ? result.mixed : result.current;
    mismatch.add(scores.log_probability[i], micro_batch.behaviour_log_probability[i]);
  }
}

void accumulate(const PolicyLossResult& loss, const Scores& scores, PolicyStepResult& result) {
  result.loss += loss.loss;
  result.clipped_low += loss.clipped_low;
  result.clipped_high += loss.clipped_high;
  result.ratio_sum += loss.ratio_sum;
  result.ratio_max = std::max(result.ratio_max, loss.ratio_max);
  result.tokens += loss.tokens;
  for (float entropy : scores.entropy) result.entropy_sum += entropy;
}

void add_mismatch(const Mismatch& mismatch, const std::string& name, MetricMap& metrics) {
  if (mismatch.tokens == 0) return;
  metrics[name + "/tokens"] = static_cast<double>(mismatch.tokens);
  metrics[name + "/k1"] = mismatch.k1();
  metrics[name + "/k3"] = mismatch.k3();
  metrics[name + "/logp_difference/mean"] = mismatch.difference();
  metrics[name + "/logp_difference/max"] = mismatch.difference_max;
}

double ratio(double part, int64_t whole) { return whole == 0 ? 0.0 : part / static_cast<double>(whole); }

}  // namespace

Task<PolicyStepResult> policy_step(Learner& learner, const TrainingBatch& batch,
                                   const PolicyLossOptions& options, double learning_rate) {
  PolicyStepResult result;
  for (const MicroBatch& micro_batch : batch.micro_batches) {
    ForwardResult forward = co_await learner.forward(micro_batch.batch);
    PolicyLossResult loss =
        clipped_policy_loss({.log_probability = forward.scores.log_probability,
                             .behaviour_log_probability = micro_batch.behaviour_log_probability,
                             .advantage = micro_batch.advantage,
                             .weight = micro_batch.weight},
                            options);
    check_loss_is_finite(loss.loss, learner.version());
    measure_staleness(micro_batch, forward.scores, learner.version(), result);
    accumulate(loss, forward.scores, result);
    co_await learner.backward(std::move(forward.tape), {.log_probability = std::move(loss.coefficient)});
  }
  result.step = co_await learner.step(learning_rate);
  check_gradient_is_finite(result.step);
  co_return result;
}

void add_metrics(const PolicyStepResult& result, MetricMap& metrics) {
  metrics["loss"] = result.loss;
  metrics["grad_norm"] = result.step.gradient_norm;
  metrics["entropy"] = ratio(result.entropy_sum, result.tokens);
  metrics["clip_ratio/low_mean"] = ratio(result.clipped_low, result.tokens);
  metrics["clip_ratio/high_mean"] = ratio(result.clipped_high, result.tokens);
  metrics["clip_ratio/region_mean"] = ratio(result.clipped_low + result.clipped_high, result.tokens);
  metrics["sampling/importance_sampling_ratio/mean"] = ratio(result.ratio_sum, result.tokens);
  metrics["sampling/importance_sampling_ratio/max"] = result.ratio_max;
  metrics["staleness/trained_lag/mean"] = ratio(static_cast<double>(result.lag_sum), result.tokens);
  metrics["staleness/trained_lag/max"] = static_cast<double>(result.lag_max);

  Mismatch all = result.current;
  all.merge(result.lagged);
  all.merge(result.mixed);
  metrics["sampling/sampling_logp_difference/mean"] = all.difference();
  metrics["sampling/sampling_logp_difference/max"] = all.difference_max;
  add_mismatch(result.current, "sampling/lag_0", metrics);
  add_mismatch(result.lagged, "sampling/lagged", metrics);
  add_mismatch(result.mixed, "sampling/mixed", metrics);
}

void add_metrics(const BatchCounts& counts, MetricMap& metrics) {
  if (counts.scored_rows > 0) {
    metrics["reward"] = ratio(counts.reward_sum, counts.scored_rows);
    metrics["reward_std"] = ratio(counts.reward_std_sum, counts.scored_groups);
  }
  metrics["frac_reward_zero_std"] = ratio(static_cast<double>(counts.zero_variance_groups), counts.groups);
  metrics["rows/total"] = static_cast<double>(counts.rows);
  metrics["rows/trained"] = static_cast<double>(counts.trained_rows);
  metrics["rows/zero_variance"] = static_cast<double>(counts.zero_variance_rows);
  metrics["rows/unscored"] = static_cast<double>(counts.unscored_rows);
  metrics["rows/truncated"] = static_cast<double>(counts.truncated_rows);
  metrics["rows/empty"] = static_cast<double>(counts.empty_rows);
  metrics["rows/stale"] = static_cast<double>(counts.stale_rows);
  metrics["staleness/masked_tokens"] = static_cast<double>(counts.stale_tokens);
  int64_t failed = 0;
  for (const auto& [name, count] : counts.failed_rows) failed += count;
  metrics["rows/failed"] = static_cast<double>(failed);
  metrics["tokens/trained"] = static_cast<double>(counts.trained_tokens);
  metrics["tokens/denominator"] = static_cast<double>(counts.denominator_tokens);
  metrics["tokens/forward"] = static_cast<double>(counts.forward_tokens);
}

}  // namespace stoker
