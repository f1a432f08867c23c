#include "compute/learning_rate.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoker {
namespace {

TEST(LearningRate, ConstantRisesAndStays) {
  const LearningRateSchedule schedule{LearningRateShape::kConstant, 2.0, 4, 10, 0.5};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 2.0);
}

TEST(LearningRate, LinearFallsToTheFinalFractionOnTheLastStep) {
  const LearningRateSchedule schedule{LearningRateShape::kLinear, 1.0, 0, 11, 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 11), 0.1);
}

TEST(LearningRate, CosineFallsMonotonicallyAfterTheWarmUp) {
  const LearningRateSchedule schedule{LearningRateShape::kCosine, 1.0, 5, 105, 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 54), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 104), 0.1, 1e-12);
  for (int64_t step = 5; step < 105; ++step) {
    EXPECT_LT(learning_rate(schedule, step), learning_rate(schedule, step - 1)) << step;
  }
}

TEST(LearningRate, ShortRunsAreDefined) {
  EXPECT_DOUBLE_EQ(learning_rate({LearningRateShape::kLinear, 1.0, 0, 1, 0.0}, 0), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate({LearningRateShape::kCosine, 1.0, 20, 10, 0.1}, 9), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({LearningRateShape::kCosine, 1.0, 20, 10, 0.1}, 19), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate({LearningRateShape::kCosine, 1.0, 20, 10, 0.1}, 20), 0.1);
}

TEST(LearningRate, NamesAreReadAndWritten) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    EXPECT_STREQ(to_string(learning_rate_shape_from_string(name)), name);
  }
  EXPECT_THROW(learning_rate_shape_from_string("cosin"), Error);
}

}  // namespace
}  // namespace stoker
