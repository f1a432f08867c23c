#include "train/variance_watch.h"

#include <fmt/core.h>

namespace stoker {

bool lacks_variance(const BatchCounts& counts) {
  return counts.groups > 0 && counts.zero_variance_groups == counts.groups;
}

std::optional<std::string> VarianceWatch::take(const BatchCounts& counts) {
  if (!lacks_variance(counts)) {
    lacking_ = scored_ = 0;
    reward_sum_ = 0;
    return std::nullopt;
  }
  ++lacking_;
  scored_ += counts.scored_rows;
  reward_sum_ += counts.reward_sum;
  if (warned_ || lacking_ < kSteps) return std::nullopt;
  warned_ = true;
  if (scored_ == 0) {
    return fmt::format(
        "No episode of the last {} steps has a reward, so that nothing was learned; 'stoker episodes RUN' "
        "tells how they ended, and 'stoker env check RUN.toml' what is wrong with the environment.",
        lacking_);
  }
  return fmt::format(
      "In the last {} steps the rewards of each group were all equal (their mean is {:.3g}), so that nothing "
      "was learned: use easier tasks where that is low and harder ones where it is high, or raise "
      "rollout.sampling.temperature or rollout.group_size.",
      lacking_, reward_sum_ / static_cast<double>(scored_));
}

}  // namespace stoker
