#include "simulation/workload.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Sorted, so that it is the same for every order.
std::vector<double> scales_of(Workload& workload, uint64_t first, uint64_t ordinals, uint32_t samples) {
  std::vector<double> scales;
  for (uint64_t ordinal = first; ordinal < first + ordinals; ++ordinal) {
    for (uint32_t sample = 0; sample < samples; ++sample) scales.push_back(workload.scale(ordinal, sample));
  }
  std::ranges::sort(scales);
  return scales;
}

TEST(Workload, OtherNamesAreOfTheSameWork) {
  const LatencyLaw law{.kind = "lognormal", .cv = 1};
  Workload plain(law, 0.25, 8, 5), moved(law, 0.25, 8, 5), samples(law, 0.25, 8, 5), groups(law, 0.25, 8, 5);
  moved.begin_at(1000);
  samples.shuffle_samples();
  groups.shuffle_groups(4);
  int other_samples = 0, other_groups = 0;
  for (uint64_t block = 0; block < 10; ++block) {
    EXPECT_EQ(scales_of(groups, 4 * block, 4, 8), scales_of(plain, 4 * block, 4, 8));
    for (uint64_t ordinal = 4 * block; ordinal < 4 * block + 4; ++ordinal) {
      EXPECT_EQ(moved.scale(1000 + ordinal, 3), plain.scale(ordinal, 3));
      EXPECT_EQ(scales_of(samples, ordinal, 1, 8), scales_of(plain, ordinal, 1, 8));
      EXPECT_NEAR(samples.group_mean(ordinal), plain.group_mean(ordinal), 1e-12);
      other_samples += samples.scale(ordinal, 0) != plain.scale(ordinal, 0) ? 1 : 0;
      other_groups += groups.group_mean(ordinal) != plain.group_mean(ordinal) ? 1 : 0;
    }
  }
  EXPECT_GT(other_samples, 25);
  EXPECT_GT(other_groups, 20);
}

}  // namespace
}  // namespace stoker
