#include "algorithm/policy_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoker {
namespace {

constexpr double kLogRatioBound = 20.0;

// Loss and derivative of one token.
struct TokenLoss {
  double ratio = 1;
  double loss = 0;
  double derivative = 0;  // d loss / d log_probability
  bool clipped = false;
};

TokenLoss token_loss(double log_ratio, double advantage, const PolicyLossOptions& options) {
  double bounded = std::clamp(log_ratio, -kLogRatioBound, kLogRatioBound);
  double ratio = std::exp(bounded);
  double clipped_ratio = std::clamp(ratio, 1.0 - options.clip_low, 1.0 + options.clip_high);
  double plain = ratio * advantage;
  double clipped = clipped_ratio * advantage;
  if (clipped < plain) return {.ratio = ratio, .loss = -clipped, .clipped = true};
  return {.ratio = ratio, .loss = -plain, .derivative = bounded == log_ratio ? -plain : 0.0};
}

void check_lengths(const PolicyLossInput& input) {
  size_t count = input.log_probability.size();
  if (input.behaviour_log_probability.size() != count || input.advantage.size() != count ||
      input.weight.size() != count) {
    throw internal_error("The arrays of a policy loss differ in length.");
  }
}

}  // namespace

PolicyLossResult clipped_policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options) {
  check_lengths(input);
  PolicyLossResult result;
  result.tokens = static_cast<int64_t>(input.log_probability.size());
  result.coefficient.resize(input.log_probability.size());
  for (size_t i = 0; i < input.log_probability.size(); ++i) {
    double log_ratio = static_cast<double>(input.log_probability[i]) -
                       static_cast<double>(input.behaviour_log_probability[i]);
    TokenLoss token = token_loss(log_ratio, input.advantage[i], options);
    result.loss += input.weight[i] * token.loss;
    result.coefficient[i] = static_cast<float>(input.weight[i] * token.derivative);
    if (token.clipped) (input.advantage[i] < 0 ? result.clipped_low : result.clipped_high) += 1;

    result.ratio_sum += token.ratio;
    result.ratio_max = std::max(result.ratio_max, token.ratio);
  }
  return result;
}

std::vector<double> aggregation_weights(std::span<const int64_t> tokens_per_sequence,
                                        LossAggregation aggregation) {
  int64_t tokens = 0, sequences = 0;
  for (int64_t count : tokens_per_sequence) {
    tokens += count;
    sequences += count > 0 ? 1 : 0;
  }
  std::vector<double> weights;
  for (int64_t count : tokens_per_sequence) {
    double divisor = aggregation == LossAggregation::kTokenMean
                         ? static_cast<double>(tokens)
                         : static_cast<double>(sequences) * static_cast<double>(count);
    weights.push_back(count > 0 ? 1.0 / divisor : 0.0);
  }
  return weights;
}

}  // namespace stoker
