#include "simulation/workload.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace stoker {
namespace {

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

// What is dispatched ahead of the run's end, or in place of what was dropped, is as at the end.
TEST(Workload, GrowsLinearlyOverTheRunAndNoFurther) {
  const LatencyLaw law{.kind = "lognormal", .cv = 1};
  for (const double times : {3.0, 0.1}) {
    Workload steady(law, 0.25, 2, 5), growing(law, 0.25, 2, 5);
    growing.grow(times, 100);
    for (uint64_t ordinal : {0u, 50u, 100u, 150u, 1000u}) {
      const double grown = static_cast<double>(std::min<uint64_t>(ordinal, 100)) / 100;
      EXPECT_NEAR(growing.scale(ordinal, 1), steady.scale(ordinal, 1) * (1 + (times - 1) * grown), 1e-9);
      EXPECT_GT(growing.scale(ordinal, 0), 0);
    }
  }
}

}  // namespace
}  // namespace stoker
