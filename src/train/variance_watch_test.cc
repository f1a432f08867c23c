#include "train/variance_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "train/testing/fake_rollouts.h"
#include "train/testing/table_learner.h"
#include "train/trainer.h"

namespace stoker {
namespace {

BatchCounts alike(double reward) {
  return {.groups = 2, .zero_variance_groups = 2, .rows = 4, .reward_sum = 4 * reward, .scored_rows = 4};
}

TEST(VarianceWatch, WarnsOnceAfterStepsInSuccession) {
  VarianceWatch watch;
  const BatchCounts differing{
      .groups = 2, .zero_variance_groups = 1, .rows = 4, .reward_sum = 1, .scored_rows = 4};
  EXPECT_EQ(watch.take(alike(1)), std::nullopt);
  EXPECT_EQ(watch.take(alike(1)), std::nullopt);
  EXPECT_EQ(watch.take(differing), std::nullopt);
  EXPECT_EQ(watch.take(alike(0.25)), std::nullopt);
  EXPECT_EQ(watch.take(alike(0.25)), std::nullopt);
  const std::string sentence = watch.take(alike(0.25)).value_or("");
  EXPECT_NE(sentence.find("last 3 steps"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("mean is 0.25"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("rollout.group_size"), std::string::npos) << sentence;
  for (int step = 0; step < 8; ++step) EXPECT_EQ(watch.take(alike(0)), std::nullopt);
}

TEST(VarianceWatch, NoRewardAtAllHasAnotherRemedy) {
  VarianceWatch watch;
  const BatchCounts unscored{.groups = 1, .zero_variance_groups = 1, .rows = 2, .unscored_rows = 2};
  watch.take(unscored);
  watch.take(unscored);
  const std::string sentence = watch.take(unscored).value_or("");
  EXPECT_NE(sentence.find("No episode of the last 3 steps has a reward"), std::string::npos) << sentence;
}

// Of a run whose episodes all earn the same, under either way with such groups.
TEST(VarianceWatch, ARunThatLearnsNothingIsWarnedOfAndCounted) {
  for (const char* zero_variance : {"skip", "train"}) {
    TrainerOptions options{.total_steps = 5};
    options.train.algorithm.zero_variance = zero_variance;
    options.train.evaluate_every = 0;
    SimulatedExecutor executor(1);
    testing::TableLearner learner(testing::table_weights(11, 9));
    testing::FakeRollouts rollouts({.edit = [](EpisodeRecord& episode) { episode.reward = 0.5; }},
                                   run(executor, learner.snapshot()));
    Trainer trainer(options, {.learner = learner, .source = rollouts}, {});
    ::testing::internal::CaptureStderr();
    const TrainSummary summary = run(executor, trainer.run());
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(summary.state.counters.at(kStepsWithoutVariance), 5) << zero_variance;
    const size_t first = told.find("rewards of each group were all equal");
    EXPECT_NE(first, std::string::npos) << told;
    EXPECT_EQ(told.find("rewards of each group", first + 1), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace stoker
