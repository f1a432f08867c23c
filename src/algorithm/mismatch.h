#pragma once

#include <cstdint>

namespace stoker {

// How far the policy that sampled some tokens is from the one that is trained, as sums over tokens so that
// parts add up. With d = log_probability - behaviour_log_probability of one token:
struct Mismatch {
  int64_t tokens = 0;
  double k1_sum = 0;  // -d: estimates KL(behaviour || current) (Schulman 2020, "Approximating KL divergence")
  double k3_sum = 0;  // exp(d) - d - 1 >= 0: the same with less variance; d is bounded to [-20, 20]
  double difference_sum = 0;  // |d|
  double difference_max = 0;

  void add(float log_probability, float behaviour_log_probability);
  void merge(const Mismatch& other);

  // Means over the tokens; 0 when there are none.
  double k1() const { return mean(k1_sum); }
  double k3() const { return mean(k3_sum); }
  double difference() const { return mean(difference_sum); }

 private:
  double mean(double sum) const { return tokens == 0 ? 0.0 : sum / static_cast<double>(tokens); }
};

}  // namespace stoker
