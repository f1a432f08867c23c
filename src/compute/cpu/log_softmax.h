#pragma once

#include <cstdint>
#include <span>

#include "compute/cpu/kernels.h"

namespace stoker::cpu {

// log softmax(logits / temperature) of one row, as sampler and trainer both compute it: z = logits * (1 /
// temperature) in float32, the sum in 16 lanes, the final subtraction in double, rounded once. A view of the
// logits.
class LogSoftmax {
 public:
  LogSoftmax(std::span<const float> logits, float temperature)
      : logits_(logits),
        inverse_temperature_(1.0f / temperature),
        statistics_(kernels().log_softmax_statistics(static_cast<int>(logits.size()), logits.data(),
                                                     inverse_temperature_)),
        log_sum_(natural_logarithm(statistics_.sum)) {}

  float log_probability(int32_t id) const {
    const float z = logits_[id] * inverse_temperature_;
    return static_cast<float>(static_cast<double>(z) - statistics_.maximum - log_sum_);
  }
  // Of the full distribution, nats.
  float entropy() const {
    return static_cast<float>(log_sum_ - static_cast<double>(statistics_.weighted) / statistics_.sum);
  }

  const SoftmaxStatistics& statistics() const { return statistics_; }
  double log_sum() const { return log_sum_; }

 private:
  std::span<const float> logits_;
  float inverse_temperature_;
  SoftmaxStatistics statistics_;
  double log_sum_;
};

}  // namespace stoker::cpu
