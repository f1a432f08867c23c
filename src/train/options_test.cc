#include "train/options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoker {
namespace {

TEST(TrainOptions, ReadFromARunFile) {
  TrainConfig config;
  ConfigReader reader(config);
  reader.read_text(
      "evaluate_every = 5\n[optimizer]\nlearning_rate = 1e-3\n[algorithm]\nadvantage_scale = \"none\"\n",
      "run.toml");
  reader.set("algorithm.zero_variance=drop");
  EXPECT_EQ(config.evaluate_every, 5);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  BatchBuilderOptions options = batch_builder_options(config.algorithm, 0.9, 512);
  EXPECT_EQ(options.advantage_scale, AdvantageScale::kNone);
  EXPECT_EQ(options.zero_variance, ZeroVariance::kDrop);
  EXPECT_EQ(options.temperature, 0.9f);
  EXPECT_EQ(options.micro_batch_tokens, 512);
}

TEST(TrainOptions, EveryChoiceHasAMeaning) {
  for (const char* scale : {"group", "batch", "none"}) {
    for (const char* aggregation : {"token-mean", "sequence-mean"}) {
      for (const char* zero_variance : {"skip", "train", "drop"}) {
        AlgorithmConfig config{
            .advantage_scale = scale, .loss_aggregation = aggregation, .zero_variance = zero_variance};
        EXPECT_NO_THROW(batch_builder_options(config, 1.0, 1));
      }
    }
  }
  EXPECT_THROW(batch_builder_options({.advantage_scale = "std"}, 1.0, 1), Error);
  EXPECT_THROW(batch_builder_options({.loss_aggregation = "mean"}, 1.0, 1), Error);
  EXPECT_THROW(batch_builder_options({.zero_variance = "keep"}, 1.0, 1), Error);
}

TEST(TrainOptions, CFG_01_MisspeltKeyIsRefusedWithTheNearestName) {
  TrainConfig config;
  ConfigReader reader(config);
  try {
    reader.set("optimizer.learning_rat=1");
    FAIL() << "an unknown key was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("learning_rate"), std::string::npos) << error.what();
  }
}

TEST(LearningRate, RisesThenFallsToItsLastValueAtTheLastStep) {
  for (const char* schedule : {"constant", "linear", "cosine"}) {
    OptimizerConfig config{
        .learning_rate = 2.0, .schedule = schedule, .warmup_steps = 4, .final_fraction = 0.1};
    LearningRateSchedule rates = learning_rate_schedule(config, 20);
    EXPECT_EQ(learning_rate(rates, 0), 0.5);
    EXPECT_EQ(learning_rate(rates, 3), 2.0);
    double last = std::string(schedule) == "constant" ? 2.0 : 0.2;
    EXPECT_NEAR(learning_rate(rates, 19), last, 1e-12);
    for (int64_t step = 5; step < 20; ++step) {
      EXPECT_LE(learning_rate(rates, step), learning_rate(rates, step - 1));
    }
  }
}

}  // namespace
}  // namespace stoker
