#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "rollout/latency_law.h"

namespace stoker {

// The scale of every episode of a simulated run: a group's factor from the law, times a lognormal noise of
// each member (CV sample_cv; none under the constant law), cut at the law's time-out. A function of the seed,
// the ordinal and the sample alone, so that runs of different settings see the same work.
class Workload {
 public:
  Workload(const LatencyLaw& law, double sample_cv, int32_t group_size, uint64_t seed);

  // From the first ordinal to `ordinals`, the scales grow linearly to so many times what they would be, and
  // stay there for those behind; what the law cuts is cut after that. `times` and `ordinals` above 0. Before
  // the first question.
  void grow(double times, double ordinals);

  // Other names for the same work, one or several, before the first question. The first ordinal is another
  // one.
  void begin_at(uint64_t first_ordinal) { first_ordinal_ = first_ordinal; }
  // The members of each group exchange their scales, in an order drawn for it.
  void shuffle_samples() { shuffled_samples_ = true; }
  // So do the groups of each so many ordinals.
  void shuffle_groups(uint64_t of_ordinals) { shuffled_groups_ = of_ordinals; }

  double scale(uint64_t ordinal, uint32_t sample);
  double group_mean(uint64_t ordinal);

 private:
  uint64_t group_of(uint64_t ordinal) const;
  void draw_up_to(uint64_t group);

  LatencyLaw law_;
  double sample_cv_;
  size_t group_size_;
  uint64_t first_ordinal_ = 0;
  bool shuffled_samples_ = false;
  uint64_t shuffled_groups_ = 0;  // ordinals; 0: not at all
  double growth_ = 1;             // of the scale, in all
  double grown_after_ = 1;        // ordinals
  std::mt19937_64 generator_;
  std::vector<double> scales_;  // by group in the order of their draws, then sample
};

}  // namespace stoker
