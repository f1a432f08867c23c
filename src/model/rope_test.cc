#include "model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/testing/models.h"

namespace stoker {
namespace {

using testing::HasSubstr;

ModelConfig wide_config() {
  ModelConfig config = tiny_config("llama");
  config.head_dim = 64;
  config.rope_theta = 500000;
  config.max_position_embeddings = 131072;
  return config;
}

TEST(Rope, PlainFrequenciesFallGeometrically) {
  const ModelConfig config = wide_config();
  const std::vector<double> frequencies = rope_frequencies(config);
  ASSERT_EQ(frequencies.size(), 32u);
  EXPECT_EQ(frequencies[0], 1.0);
  EXPECT_NEAR(frequencies[16], std::pow(500000.0, -0.5), 1e-12);
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  ModelConfig config = wide_config();
  const std::vector<double> plain = rope_frequencies(config);
  config.rope_scaling = {.type = RopeScalingType::kLlama3,
                         .factor = 32,
                         .original_max_position_embeddings = 8192,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4};
  const std::vector<double> scaled = rope_frequencies(config);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_NEAR(scaled[31], plain[31] / 32, 1e-15);
  int blended = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(scaled[i], plain[i]);
    EXPECT_GE(scaled[i], plain[i] / 32 * (1 - 1e-12));
    blended += scaled[i] < plain[i] && scaled[i] > plain[i] / 31.9 ? 1 : 0;
  }
  EXPECT_GT(blended, 0);
}

TEST(Rope, YarnIsBetweenPlainAndLinear) {
  ModelConfig config = wide_config();
  const std::vector<double> plain = rope_frequencies(config);
  config.rope_scaling = {.type = RopeScalingType::kYarn,
                         .factor = 4,
                         .original_max_position_embeddings = 32768,
                         .beta_fast = 32,
                         .beta_slow = 1};
  const std::vector<double> scaled = rope_frequencies(config);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_NEAR(scaled[31], plain[31] / 4, 1e-15);
  EXPECT_NEAR(yarn_attention_factor(4), 0.1 * std::log(4.0) + 1, 1e-7);
  EXPECT_EQ(yarn_attention_factor(1), 1.0f);
}

TEST(Rope, DynamicIsPlainWithinThePositionsAndLocalLayersAreNotScaled) {
  ModelConfig config = wide_config();
  const std::vector<double> plain = rope_frequencies(config);
  config.rope_scaling = {.type = RopeScalingType::kDynamic, .factor = 4};
  EXPECT_EQ(rope_frequencies(config), plain);
  config.rope_scaling = {.type = RopeScalingType::kLinear, .factor = 8};
  EXPECT_EQ(rope_frequencies(config)[5], plain[5] / 8);
  EXPECT_EQ(rope_local_frequencies(config)[5], plain[5] / 8);
  config.rope_local_theta = config.rope_theta;
  EXPECT_EQ(rope_local_frequencies(config), plain);
}

TEST(Rope, NumbersThatDoNotFitAreRefusedByName) {
  ModelConfig config = wide_config();
  config.rope_scaling = {.type = RopeScalingType::kLlama3, .factor = 8, .low_freq_factor = 4};
  EXPECT_THAT(input_error_of([&] { validate(config); }), HasSubstr("high_freq_factor"));
  config.rope_scaling = {.type = RopeScalingType::kLinear, .factor = 0};
  EXPECT_THAT(input_error_of([&] { validate(config); }), HasSubstr("factor = 0"));
  config.rope_scaling = {.type = RopeScalingType::kYarn, .factor = 4, .beta_fast = 32, .beta_slow = 1};
  EXPECT_THAT(input_error_of([&] { validate(config); }), HasSubstr("original_max_position_embeddings"));
}

}  // namespace
}  // namespace stoker
