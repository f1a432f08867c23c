#include "algorithm/mismatch.h"

#include <algorithm>
#include <cmath>

namespace stoker {

void Mismatch::add(float log_probability, float behaviour_log_probability) {
  double difference = static_cast<double>(log_probability) - static_cast<double>(behaviour_log_probability);
  // float32 and float64 exponentials overflow far outside what a mean can hold.
  double bounded = std::clamp(difference, -20.0, 20.0);
  ++tokens;
  k1_sum -= difference;
  k3_sum += std::expm1(bounded) - bounded;
  difference_sum += std::abs(difference);
  difference_max = std::max(difference_max, std::abs(difference));
}

void Mismatch::merge(const Mismatch& other) {
  tokens += other.tokens;
  k1_sum += other.k1_sum;
  k3_sum += other.k3_sum;
  difference_sum += other.difference_sum;
  difference_max = std::max(difference_max, other.difference_max);
}

}  // namespace stoker
