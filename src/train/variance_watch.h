#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/batch_builder.h"

namespace stoker {

// Whether no group of a step had rewards that differ: all advantages are 0, and nothing is learned.
bool lacks_variance(const BatchCounts& counts);

// Notices a run that has nothing to learn from.
class VarianceWatch {
 public:
  static constexpr int64_t kSteps = 3;

  // Takes the next step. What to warn of: at the kSteps-th step in succession that lacked variance, once.
  std::optional<std::string> take(const BatchCounts& counts);

 private:
  int64_t lacking_ = 0;  // steps in succession
  int64_t scored_ = 0;   // episodes in them
  double reward_sum_ = 0;
  bool warned_ = false;
};

}  // namespace stoker
