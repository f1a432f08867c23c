#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "base/error.h"
#include "base/random.h"

namespace stoker {
namespace {

TEST(MetricsRegistry, CountersGiveTheIncreaseAndGaugesLevelAndPeak) {
  MetricsRegistry registry;
  Counter& retried = registry.counter("episodes/retried");
  Gauge& depth = registry.gauge("queue/depth");
  EXPECT_EQ(&registry.counter("episodes/retried"), &retried);
  retried.add();
  retried.add(4);
  depth.set(7);
  depth.add(-5);
  MetricMap first;
  registry.collect(first);
  EXPECT_EQ(first, (MetricMap{{"episodes/retried", 5}, {"queue/depth", 2}, {"queue/depth/peak", 7}}));
  retried.add();
  MetricMap second;
  registry.collect(second);
  EXPECT_EQ(second, (MetricMap{{"episodes/retried", 1}, {"queue/depth", 2}, {"queue/depth/peak", 2}}));
  EXPECT_EQ(retried.value(), 6);
}

TEST(MetricsRegistry, OneNameIsOneKind) {
  MetricsRegistry registry;
  registry.counter("a");
  registry.gauge("b");
  EXPECT_THROW(registry.gauge("a"), Error);
  EXPECT_THROW(registry.counter("b"), Error);
}

TEST(MetricsRegistry, ThreadsLoseNothing) {
  MetricsRegistry registry;
  auto work = [&registry] {
    for (int i = 0; i < 10000; ++i) {
      registry.counter("n").add();
      registry.gauge("g").add(1);
    }
  };
  std::thread first(work);
  std::thread second(work);
  first.join();
  second.join();
  EXPECT_EQ(registry.counter("n").value(), 20000);
  EXPECT_EQ(registry.gauge("g").take_peak(), 20000);
}

TEST(Summary, MET_03_MergedMaximumIsNoMean) {
  Summary maxima;
  Summary minima;
  Summary turns;
  maxima.add(5);
  minima.add(1);
  turns.add(10);
  Summary more_maxima;
  Summary more_minima;
  Summary more_turns;
  more_maxima.add(9);
  more_minima.add(3);
  more_turns.add(12);
  maxima.merge(more_maxima);
  minima.merge(more_minima);
  turns.merge(more_turns);
  EXPECT_EQ(maxima.maximum(), 9);
  EXPECT_EQ(minima.minimum(), 1);
  EXPECT_EQ(turns.sum(), 22);
  Summary one_row;
  one_row.add(0.5);
  Summary three_rows;
  for (int i = 0; i < 3; ++i) three_rows.add(0.25);
  one_row.merge(three_rows);
  EXPECT_EQ(one_row.mean(), 1.25 / 4);  // weighted by rows
}

TEST(Summary, MET_09_SpreadOfOneValueIsMissing) {
  Summary summary;
  EXPECT_EQ(summary.mean(), std::nullopt);
  EXPECT_EQ(summary.maximum(), std::nullopt);
  EXPECT_EQ(summary.deviation(), std::nullopt);
  MetricMap map;
  summary.put(map, "reward");
  EXPECT_TRUE(map.empty());
  summary.add(42);
  summary.put(map, "reward");
  EXPECT_EQ(map, (MetricMap{{"reward/mean", 42}, {"reward/min", 42}, {"reward/max", 42}}));
}

TEST(Summary, MET_13_WhatIsNotScoredIsCountedApart) {
  Summary scored;
  scored.add(1);
  scored.add(3);
  scored.add(std::nan(""));
  EXPECT_EQ(scored.count(), 2);
  EXPECT_EQ(scored.not_finite(), 1);
  EXPECT_EQ(scored.mean(), 2.0);
  EXPECT_DOUBLE_EQ(scored.sum() / static_cast<double>(scored.count() + scored.not_finite()), 4.0 / 3.0);
}

// Against the two-pass formulas, over random numbers split at a random place.
TEST(Summary, AgreesWithTwoPassFormulasAndMerging) {
  RandomStream random(StreamKey{.run_seed = 21});
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values(2 + random.below(40));
    for (double& value : values) value = 1e6 + random.normal();
    size_t cut = random.below(values.size() + 1);
    Summary whole;
    Summary left;
    Summary right;
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      whole.add(values[i]);
      (i < cut ? left : right).add(values[i]);
      sum += values[i];
    }
    double mean = sum / static_cast<double>(values.size());
    double squares = 0;
    for (double value : values) squares += (value - mean) * (value - mean);
    double deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
    left.merge(right);
    EXPECT_NEAR(*whole.mean(), mean, 1e-6);
    EXPECT_NEAR(*whole.deviation(), deviation, 1e-6);
    EXPECT_NEAR(*left.deviation(), deviation, 1e-6);
    EXPECT_EQ(left.minimum(), whole.minimum());
    EXPECT_EQ(left.maximum(), whole.maximum());
    EXPECT_EQ(left.count(), whole.count());
  }
}

}  // namespace
}  // namespace stoker
