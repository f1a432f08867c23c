#include "simulation/latency_law.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "simulation/workload.h"

namespace stoker {
namespace {

struct Moments {
  double mean = 0, cv = 0, smallest = 1e300, largest = 0;
};

Moments moments_of(const LatencyLaw& law) {
  std::mt19937_64 generator(5);
  const auto uniform = [&] { return static_cast<double>(generator() >> 11) * 0x1p-53; };
  constexpr int kDraws = 400'000;
  double sum = 0, squares = 0;
  Moments moments;
  for (int i = 0; i < kDraws; ++i) {
    const double scale = draw_scale(law, uniform);
    sum += scale;
    squares += scale * scale;
    moments.smallest = std::min(moments.smallest, scale);
    moments.largest = std::max(moments.largest, scale);
  }
  moments.mean = sum / kDraws;
  moments.cv = std::sqrt(squares / kDraws - moments.mean * moments.mean) / moments.mean;
  return moments;
}

TEST(LatencyLaw, EveryLawHasMeanOne) {
  EXPECT_EQ(moments_of({.kind = "constant"}).cv, 0);
  for (double cv : {0.5, 1.0, 2.0}) {
    const Moments lognormal = moments_of({.kind = "lognormal", .cv = cv});
    EXPECT_NEAR(lognormal.mean, 1, 0.01 * (1 + cv));
    EXPECT_NEAR(lognormal.cv, cv, 0.1 * cv);
  }
  for (double alpha : {1.5, 2.0, 2.5}) {
    const Moments pareto = moments_of({.kind = "pareto", .alpha = alpha});
    EXPECT_NEAR(pareto.mean, 1, 0.01);
    EXPECT_NEAR(pareto.largest / pareto.smallest, 30, 0.5);
  }
  const Moments bimodal = moments_of({.kind = "bimodal"});
  EXPECT_NEAR(bimodal.mean, 1, 0.01);
  EXPECT_NEAR(bimodal.largest / bimodal.smallest, 10, 1e-9);
  EXPECT_THROW(moments_of({.kind = "uniform"}), Error);
}

TEST(Workload, DoesNotDependOnTheOrderOfItsQuestions) {
  const LatencyLaw law{.kind = "bimodal", .time_out = 3};
  Workload forward(law, 0.25, 4, 9), backward(law, 0.25, 4, 9), other(law, 0.25, 4, 10);
  EXPECT_EQ(backward.scale(99, 3), backward.scale(99, 3));
  double difference = 0;
  for (uint64_t ordinal = 0; ordinal < 100; ++ordinal) {
    for (uint32_t sample = 0; sample < 4; ++sample) {
      EXPECT_EQ(forward.scale(ordinal, sample), backward.scale(ordinal, sample));
      EXPECT_LE(forward.scale(ordinal, sample), 3);
      difference += std::abs(forward.scale(ordinal, sample) - other.scale(ordinal, sample));
    }
  }
  EXPECT_GT(difference, 10);
}

}  // namespace
}  // namespace stoker
