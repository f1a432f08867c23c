#include "algorithm/mismatch.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/random.h"

namespace stoker {
namespace {

TEST(Mismatch, HasTheReferenceValues) {
  Mismatch down;
  down.add(-1.5f, -1.0f);  // d = -0.5
  EXPECT_NEAR(down.k1(), 0.5, 1e-7);
  EXPECT_NEAR(down.k3(), 0.106531, 1e-6);
  Mismatch up;
  up.add(-1.0f, -1.5f);  // d = 0.5
  EXPECT_NEAR(up.k1(), -0.5, 1e-7);
  EXPECT_NEAR(up.k3(), 0.148721, 1e-6);
  EXPECT_NEAR(up.difference(), 0.5, 1e-7);
}

TEST(Mismatch, EqualLogProbabilitiesGiveExactlyZero) {
  Mismatch mismatch;
  for (float value : {-0.1f, -7.3f, 0.0f, -1e-8f}) mismatch.add(value, value);
  EXPECT_EQ(mismatch.tokens, 4);
  EXPECT_EQ(mismatch.k1(), 0.0);
  EXPECT_EQ(mismatch.k3(), 0.0);
  EXPECT_EQ(mismatch.difference_max, 0.0);
}

TEST(Mismatch, ADV_15_StaysFinite) {
  Mismatch mismatch;
  mismatch.add(-1.0f, -100.0f);
  mismatch.add(-100.0f, -1.0f);
  EXPECT_TRUE(std::isfinite(mismatch.k3()));
  EXPECT_EQ(mismatch.difference_max, 99.0);
  EXPECT_EQ(mismatch.k1(), 0.0);
}

TEST(Mismatch, NoTokensMeansZero) {
  EXPECT_EQ(Mismatch().k3(), 0.0);
  EXPECT_EQ(Mismatch().difference(), 0.0);
}

TEST(Mismatch, PartsAddUp) {
  RandomStream random({.run_seed = 4, .purpose = RandomPurpose::kData});
  Mismatch whole, first, second;
  for (int i = 0; i < 1000; ++i) {
    auto current = static_cast<float>(-3 * random.uniform());
    auto behaviour = static_cast<float>(-3 * random.uniform());
    whole.add(current, behaviour);
    (random.uniform() < 0.5 ? first : second).add(current, behaviour);
  }
  first.merge(second);
  EXPECT_EQ(first.tokens, whole.tokens);
  EXPECT_NEAR(first.k1(), whole.k1(), 1e-12);
  EXPECT_NEAR(first.k3(), whole.k3(), 1e-12);
  EXPECT_NEAR(first.difference(), whole.difference(), 1e-12);
  EXPECT_EQ(first.difference_max, whole.difference_max);
}

}  // namespace
}  // namespace stoker
