#include "cli/preflight.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/sizes.h"

namespace stoker {
namespace {

// SmolLM2-135M.
ModelConfig model() {
  ModelConfig config{.vocab_size = 49152,
                     .hidden_size = 576,
                     .num_hidden_layers = 30,
                     .num_attention_heads = 9,
                     .num_key_value_heads = 3,
                     .head_dim = 64,
                     .intermediate_size = 1536,
                     .max_position_embeddings = 8192};
  config.tie_word_embeddings = true;
  return config;
}

MemorySettings settings() {
  return {.vocabulary_size = 49152,
          .threads = 2,
          .engines = 2,
          .cache_megabytes = 512,
          .micro_batch_tokens = 2048,
          .micro_batch_key = "train.micro_batch_tokens"};
}

std::string refusal(const MemorySettings& settings, double available) {
  try {
    check_memory(model(), settings, available);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(Preflight, PlansTheMemoryOfARun) {
  const MemoryPlan plan = plan_memory(model(), settings());
  EXPECT_NEAR(plan.optimizer, 3 * 4 * 134.5e6, 1e8);
  EXPECT_NEAR(plan.weights, 134.5e6 * 4 * (2 + 1 + 4), 4e8);
  EXPECT_EQ(plan.cache, 1024.0 * (1 << 20));
  MemorySettings brain = settings();
  brain.compute_type = ComputeType::kBfloat16;
  EXPECT_NEAR(plan_memory(model(), brain).weights, 134.5e6 * (2 * 4 + 2 * 5), 2e8);
  const std::string line = check_memory(model(), settings(), 1e11);
  EXPECT_NE(line.find("KV cache up to 1.07 GB"), std::string::npos) << line;
  EXPECT_NE(line.find("of 100.00 GB available"), std::string::npos) << line;
}

// With what a refusal tells, the run fits.
TEST(Preflight, NamesTheSettingThatMakesARunFit) {
  const double total = plan_memory(model(), settings()).total();
  EXPECT_EQ(refusal(settings(), total), "");
  EXPECT_NE(refusal(settings(), total - 1e6).find("set train.micro_batch_tokens=1024."), std::string::npos)
      << refusal(settings(), total - 1e6);
  MemorySettings wide = settings();
  wide.cache_megabytes = 8192;
  EXPECT_NE(refusal(wide, total).find("set engine.cache_megabytes=512."), std::string::npos);
  MemorySettings narrow = settings();
  narrow.micro_batch_tokens = 512;
  const double less = plan_memory(model(), narrow).total() - 1.2e9;
  EXPECT_NE(refusal(narrow, less).find("set model.compute_type=bfloat16."), std::string::npos)
      << refusal(narrow, less);
  EXPECT_NE(refusal(settings(), 1e9).find("a smaller model"), std::string::npos);
}

}  // namespace
}  // namespace stoker
