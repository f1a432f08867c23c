#include "algorithm/advantage.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

struct Moments {
  double mean = 0;
  double std = 0;
  bool all_equal = true;
};

// Mean and sample standard deviation in two passes. Equal values are found by comparison, because the
// rounding of a sum would make a spread out of nothing.
Moments moments(std::span<const double> values) {
  Moments result;
  if (values.empty()) return result;
  result.all_equal = std::ranges::all_of(values, [&](double value) { return value == values[0]; });
  result.mean = values[0];
  if (result.all_equal) return result;
  double sum = 0;
  for (double value : values) sum += value;
  result.mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (double value : values) squares += (value - result.mean) * (value - result.mean);
  result.std = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

bool is_scored(const std::optional<double>& reward) { return reward.has_value() && std::isfinite(*reward); }

// R - mean, and the statistics; the caller divides.
GroupAdvantages centred(std::span<const std::optional<double>> rewards) {
  GroupAdvantages result;
  std::vector<double> scored;
  for (const auto& reward : rewards) {
    result.scored.push_back(is_scored(reward));
    if (is_scored(reward)) scored.push_back(*reward);
  }
  Moments statistics = moments(scored);
  result.mean = statistics.mean;
  result.std = statistics.std;
  result.zero_variance = statistics.all_equal;
  result.advantage.assign(rewards.size(), 0.0);
  if (result.zero_variance) return result;
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (result.scored[i]) result.advantage[i] = *rewards[i] - result.mean;
  }
  return result;
}

void divide(GroupAdvantages& group, double divisor) {
  for (double& advantage : group.advantage) advantage /= divisor;
}

}  // namespace

GroupAdvantages group_advantages(std::span<const std::optional<double>> rewards, bool divide_by_std,
                                 double epsilon) {
  GroupAdvantages result = centred(rewards);
  if (divide_by_std && !result.zero_variance) divide(result, result.std + epsilon);
  return result;
}

std::vector<GroupAdvantages> batch_advantages(std::span<const GroupRewards> groups, AdvantageScale scale,
                                              double epsilon) {
  std::vector<GroupAdvantages> result;
  std::vector<double> all;
  for (const GroupRewards& rewards : groups) {
    result.push_back(group_advantages(rewards, scale == AdvantageScale::kGroup, epsilon));
    for (const auto& reward : rewards) {
      if (is_scored(reward)) all.push_back(*reward);
    }
  }
  if (scale != AdvantageScale::kBatch) return result;
  double divisor = moments(all).std + epsilon;
  for (GroupAdvantages& group : result) {
    if (!group.zero_variance) divide(group, divisor);
  }
  return result;
}

}  // namespace stoker
