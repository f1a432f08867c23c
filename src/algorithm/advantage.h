#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stoker {

// What a group's centred rewards are divided by.
enum class AdvantageScale {
  kGroup,  // the group's own standard deviation (GRPO)
  kBatch,  // the standard deviation of all rewards of the batch
  kNone,   // nothing (Liu et al. 2025, Dr. GRPO, section 3.2)
};

// Rewards of one group, by member; empty: not scored, which is not zero.
using GroupRewards = std::vector<std::optional<double>>;

struct GroupAdvantages {
  std::vector<double> advantage;  // one a member; 0 for members without a reward
  std::vector<bool> scored;       // one a member: it has a finite reward and took part in the statistics
  bool zero_variance = false;     // fewer than two rewards, or all equal: every advantage is exactly 0
  double mean = 0;                // over the scored members; 0 when there are none
  double std = 0;                 // sample standard deviation (n - 1); 0 for fewer than two
};

// GRPO (Shao et al. 2024, DeepSeekMath, section 4.1): (R - mean) / (std + epsilon) over the members that have
// a reward, or R - mean. Equal rewards give exactly 0 whatever their value. Non-finite rewards count as
// absent.
GroupAdvantages group_advantages(std::span<const std::optional<double>> rewards, bool divide_by_std,
                                 double epsilon);

// The same for each group of a batch; groups may differ in size. With kBatch the centred rewards are divided
// by the sample standard deviation of all rewards of the batch, plus epsilon.
std::vector<GroupAdvantages> batch_advantages(std::span<const GroupRewards> groups, AdvantageScale scale,
                                              double epsilon);

}  // namespace stoker
