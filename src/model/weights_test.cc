#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/testing/models.h"

namespace stoker {
namespace {

TEST(Weights, ManifestHasTheNamesAndShapesOfHuggingFace) {
  ModelConfig config = tiny_config("qwen3");
  config.num_hidden_layers = 1;
  std::vector<TensorInfo> expected = {
      {"model.embed_tokens.weight", {11, 8}},
      {"model.layers.0.input_layernorm.weight", {8}},
      {"model.layers.0.self_attn.q_proj.weight", {24, 8}},
      {"model.layers.0.self_attn.k_proj.weight", {12, 8}},
      {"model.layers.0.self_attn.v_proj.weight", {12, 8}},
      {"model.layers.0.self_attn.q_norm.weight", {6}},
      {"model.layers.0.self_attn.k_norm.weight", {6}},
      {"model.layers.0.self_attn.o_proj.weight", {8, 24}},
      {"model.layers.0.post_attention_layernorm.weight", {8}},
      {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
      {"model.layers.0.mlp.up_proj.weight", {12, 8}},
      {"model.layers.0.mlp.down_proj.weight", {8, 12}},
      {"model.norm.weight", {8}},
      {"lm_head.weight", {11, 8}},
  };
  EXPECT_EQ(weight_manifest(config), expected);
  config.tie_word_embeddings = true;
  expected.pop_back();
  EXPECT_EQ(weight_manifest(config), expected);
  Weights biased(tiny_config("qwen2"));
  EXPECT_EQ(biased.tensor("model.layers.1.self_attn.k_proj.bias").size(), 12u);
}

TEST(Weights, TensorsTileTheBufferInManifestOrder) {
  Weights weights(tiny_config());
  const float* next = weights.values().data();
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    EXPECT_EQ(weights.tensor(i).data(), next);
    EXPECT_EQ(weights.tensor(weights.manifest()[i].name).data(), next);
    next += weights.tensor(i).size();
  }
  EXPECT_EQ(next, weights.values().data() + weights.values().size());
}

TEST(Weights, UnknownTensorIsAnInternalError) {
  const Weights weights(tiny_config());
  EXPECT_THROW(weights.tensor("model.layers.2.input_layernorm.weight"), Error);
  EXPECT_THROW(weights.tensor(weights.manifest().size()), Error);
}

TEST(Weights, DigestSeesEveryBitAndTheShapes) {
  Weights weights = initialize_weights(tiny_config(), 1);
  uint64_t digest = weights.digest();
  EXPECT_EQ(initialize_weights(tiny_config(), 1).digest(), digest);
  EXPECT_NE(initialize_weights(tiny_config(), 2).digest(), digest);
  weights.set_version(7);
  EXPECT_EQ(weights.digest(), digest);
  weights.values().back() = std::nextafter(weights.values().back(), 1e9f);
  EXPECT_NE(weights.digest(), digest);
  ModelConfig transposed = tiny_config();
  std::swap(transposed.hidden_size, transposed.intermediate_size);
  EXPECT_NE(Weights(transposed).digest(), Weights(tiny_config()).digest());
}

TEST(Weights, InitializationFollowsTheRecipe) {
  ModelConfig config = tiny_config("qwen2");
  config.vocab_size = 500;
  config.hidden_size = 96;
  config.intermediate_size = 160;
  Weights weights = initialize_weights(config, 3);
  auto deviation = [&](const char* name) {
    double sum = 0;
    for (float value : weights.tensor(name)) sum += double{value} * value;
    return std::sqrt(sum / static_cast<double>(weights.tensor(name).size()));
  };
  EXPECT_NEAR(deviation("model.embed_tokens.weight"), 1.0, 0.02);
  EXPECT_NEAR(deviation("lm_head.weight"), 0.02, 0.0005);
  EXPECT_NEAR(deviation("model.layers.0.mlp.up_proj.weight") * std::sqrt(96.0), 1.0, 0.03);
  EXPECT_NEAR(deviation("model.layers.1.mlp.down_proj.weight") * std::sqrt(160.0 * 4), 1.0, 0.03);
  EXPECT_NEAR(deviation("model.layers.1.self_attn.o_proj.weight") * std::sqrt(24.0 * 4), 1.0, 0.06);
  EXPECT_EQ(deviation("model.norm.weight"), 1.0);
  EXPECT_EQ(deviation("model.layers.0.self_attn.q_proj.bias"), 0.0);
  config.tie_word_embeddings = true;
  weights = initialize_weights(config, 3);
  EXPECT_NEAR(deviation("model.embed_tokens.weight"), 0.02, 0.0005);
}

TEST(Weights, SizesThatDoNotFitAreRefusedBeforeMemoryIsTaken) {
  ModelConfig config = tiny_config();
  config.num_key_value_heads = 0;
  EXPECT_THAT(input_error_of([&] { Weights weights(config); }), testing::HasSubstr("num_key_value_heads"));
}

}  // namespace
}  // namespace stoker
