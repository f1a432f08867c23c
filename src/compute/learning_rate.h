#pragma once

#include <cstdint>
#include <string>

namespace stoker {

enum class LearningRateShape { kConstant, kLinear, kCosine };

// "constant", "linear", "cosine"; other names throw Error(kInput).
LearningRateShape learning_rate_shape_from_string(const std::string& name);
const char* to_string(LearningRateShape shape);

// A learning rate as a function of the step. It rises linearly over `warmup_steps` steps, then stays, or
// falls in a line or half a cosine to `final_fraction` of the peak, which the last step reaches.
struct LearningRateSchedule {
  LearningRateShape shape = LearningRateShape::kConstant;
  double peak = 1e-3;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double final_fraction = 0.0;
};

// The rate of step `step`, counted from 0. During the warm-up (step + 1) / warmup_steps of the peak; from
// total_steps on the final rate (the peak, when constant).
double learning_rate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace stoker
