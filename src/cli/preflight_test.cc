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

// In which everything is kept.
double kept_total(const MemorySettings& settings) { return plan_memory(model(), settings, 1e12).total(); }

TEST(Preflight, PlansTheMemoryOfARun) {
  const MemoryPlan plan = plan_memory(model(), settings(), 1e12);
  EXPECT_NEAR(plan.optimizer, 3 * 4 * 134.5e6, 1e8);
  EXPECT_NEAR(plan.weights, 134.5e6 * 4 * (3 + 1 + 4), 2e8);
  EXPECT_EQ(plan.cache, 1024.0 * (1 << 20));
  EXPECT_EQ(plan.recompute, Recompute::kNone);
  MemorySettings brain = settings();
  brain.compute_type = ComputeType::kBfloat16;
  EXPECT_NEAR(plan_memory(model(), brain, 1e12).weights, 134.5e6 * (3 * 4 + 2 * 5), 2e8);
  const std::string line = check_memory(model(), settings(), 1e11).line;
  EXPECT_NE(line.find("KV cache up to 1.07 GB"), std::string::npos) << line;
  EXPECT_NE(line.find("(recompute none)"), std::string::npos) << line;
  EXPECT_NE(line.find("of 100.00 GB available"), std::string::npos) << line;
}

// Each further replica holds two versions packed while one is published, a child also the floats that it
// reads.
TEST(Preflight, PlansTheWeightsOfEveryReplica) {
  const double one = plan_memory(model(), settings(), 1e12).weights, model_bytes = 134.5e6 * 4;
  MemorySettings more = settings();
  more.engines = 4;
  EXPECT_NEAR(plan_memory(model(), more, 1e12).weights - one, 4 * model_bytes, 1e8);
  more.engines = 2;
  more.child_engines = 2;
  EXPECT_NEAR(plan_memory(model(), more, 1e12).weights - one, 2 * 3 * model_bytes, 1e8);
  MemorySettings learner_only = settings();
  learner_only.engines = 0;
  EXPECT_NEAR(one - plan_memory(model(), learner_only, 1e12).weights, 4 * model_bytes, 1e8);
}

// With what a refusal tells, the run fits.
TEST(Preflight, NamesTheSettingThatMakesARunFit) {
  MemorySettings fixed = settings();
  fixed.recompute = Recompute::kNone;
  const double total = kept_total(fixed);
  EXPECT_EQ(refusal(fixed, total), "");
  EXPECT_NE(refusal(fixed, total - 1e6).find("set recompute=attention."), std::string::npos)
      << refusal(fixed, total - 1e6);
  const double least = plan_memory(model(), settings(), 0).total();
  EXPECT_EQ(refusal(settings(), least), "");
  EXPECT_NE(refusal(settings(), least - 1e6).find("set engine.cache_megabytes=256."), std::string::npos)
      << refusal(settings(), least - 1e6);
  MemorySettings narrow = settings();
  narrow.cache_megabytes = 16;
  narrow.micro_batch_tokens = 8192;
  const double narrow_least = plan_memory(model(), narrow, 0).total();
  EXPECT_NE(refusal(narrow, narrow_least - 1e6).find("set train.micro_batch_tokens=4096."), std::string::npos)
      << refusal(narrow, narrow_least - 1e6);
  const double less = least - 2.2e9;
  EXPECT_NE(refusal(settings(), less).find("set model.compute_type=bfloat16"), std::string::npos)
      << refusal(settings(), less);
  EXPECT_NE(refusal(settings(), 1e9).find("a smaller model"), std::string::npos);
  MemorySettings smallest = settings();
  smallest.compute_type = ComputeType::kBfloat16;
  smallest.cache_megabytes = 16;
  smallest.micro_batch_tokens = 256;
  const double recomputed = plan_memory(model(), smallest, 0).total();
  EXPECT_NE(refusal(fixed, recomputed).find("leave recompute at auto and set model.compute_type=bfloat16"),
            std::string::npos)
      << refusal(fixed, recomputed);
}

// As much as fits is kept, and the line says what was chosen and what it spares.
TEST(Preflight, ChoosesTheFormOfRecomputationThatFits) {
  const double kept = kept_total(settings());
  MemorySettings fixed = settings();
  fixed.recompute = Recompute::kAttention;
  const double attention = plan_memory(model(), fixed, 0).total();
  fixed.recompute = Recompute::kLayer;
  const double layer = plan_memory(model(), fixed, 0).total();
  EXPECT_LT(attention, kept - 4e8);
  EXPECT_LT(layer, attention - 6e8);
  EXPECT_EQ(check_memory(model(), settings(), kept).recompute, Recompute::kNone);
  EXPECT_EQ(check_memory(model(), settings(), kept - 1).recompute, Recompute::kAttention);
  const CheckedMemory chosen = check_memory(model(), settings(), layer);
  EXPECT_EQ(chosen.recompute, Recompute::kLayer);
  EXPECT_NE(chosen.line.find("(recompute layer; 1."), std::string::npos) << chosen.line;
  EXPECT_EQ(recompute_setting("auto"), std::nullopt);
  EXPECT_EQ(recompute_setting("layer"), Recompute::kLayer);
}

// The budget of the run file counts the model that is loaded, and only what the machine has can be had.
TEST(Preflight, KeepsToTheMemoryOfTheRunFile) {
  MemorySettings limited = settings();
  const double kept = kept_total(limited), floats = 4.0 * static_cast<double>(model().parameter_count());
  limited.limit_megabytes = static_cast<int64_t>((kept + floats) / (1 << 20)) + 1;
  EXPECT_EQ(check_memory(model(), limited, 1e12).recompute, Recompute::kNone);
  limited.limit_megabytes -= 2;
  EXPECT_EQ(check_memory(model(), limited, 1e12).recompute, Recompute::kAttention);
  limited.limit_megabytes = 100;
  const std::string refused = refusal(limited, 1e12);
  const size_t raised = refused.find("set memory_megabytes=");
  ASSERT_NE(raised, std::string::npos) << refused;
  limited.limit_megabytes = std::stoll(refused.substr(raised + 21));
  EXPECT_EQ(refusal(limited, 1e12), "");
  EXPECT_NE(refusal(limited, 1e9).find("a smaller model"), std::string::npos) << refusal(limited, 1e9);
}

}  // namespace
}  // namespace stoker
