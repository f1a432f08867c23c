#include "compute/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace stoker {

LearningRateShape learning_rate_shape_from_string(const std::string& name) {
  for (const LearningRateShape shape :
       {LearningRateShape::kConstant, LearningRateShape::kLinear, LearningRateShape::kCosine}) {
    if (name == to_string(shape)) return shape;
  }
  throw input_error("The learning-rate schedule '" + name +
                    "' is unknown; it may be constant, linear or cosine.");
}

const char* to_string(LearningRateShape shape) {
  switch (shape) {
    case LearningRateShape::kConstant:
      return "constant";
    case LearningRateShape::kLinear:
      return "linear";
    case LearningRateShape::kCosine:
      return "cosine";
  }
  return "";
}

double learning_rate(const LearningRateSchedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.shape == LearningRateShape::kConstant) return schedule.peak;
  // 0 on the last step of the warm-up (or the first step of all), 1 on the last step.
  const int64_t first = std::max<int64_t>(schedule.warmup_steps - 1, 0);
  const int64_t length = std::max<int64_t>(schedule.total_steps - 1 - first, 1);
  const double progress =
      std::clamp(static_cast<double>(step - first) / static_cast<double>(length), 0.0, 1.0);
  const double remaining = schedule.shape == LearningRateShape::kLinear
                               ? 1 - progress
                               : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return schedule.peak * (schedule.final_fraction + (1 - schedule.final_fraction) * remaining);
}

}  // namespace stoker
