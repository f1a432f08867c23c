#include "rollout/latency_law.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace stoker
