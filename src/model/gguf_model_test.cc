#include "model/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "model/model_directory.h"
#include "model/rope.h"
#include "model/testing/gguf_builder.h"
#include "model/testing/models.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

void add_sizes(const ModelConfig& config, const std::string& prefix, GgufBuilder& builder) {
  builder.add_string("general.architecture", prefix.substr(0, prefix.size() - 1));
  const auto add = [&](const char* key, int32_t value) {
    builder.add_uint(prefix + key, static_cast<uint32_t>(value));
  };
  add("embedding_length", config.hidden_size);
  add("block_count", config.num_hidden_layers);
  add("feed_forward_length", config.intermediate_size);
  add("context_length", config.max_position_embeddings);
  add("attention.head_count", config.num_attention_heads);
  add("attention.head_count_kv", config.num_key_value_heads);
  add("attention.key_length", config.head_dim);
  add("attention.value_length", config.head_dim);
  builder.add_float(prefix + "attention.layer_norm_rms_epsilon", config.rms_norm_eps);
  builder.add_float(prefix + "rope.freq_base", config.rope_theta);
  builder.add_uint("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(config.bos_token_id));
  builder.add_uint("tokenizer.ggml.eos_token_id", 2);
  builder.add_uint("tokenizer.ggml.padding_token_id", 0);
}

// The name that llama.cpp's converter gives a tensor of the manifest.
std::string gguf_name(std::string name, bool gemma) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  };
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  replace("model.layers.", "blk.");
  replace("input_layernorm", "attn_norm");
  replace("post_attention_layernorm", gemma ? "post_attention_norm" : "ffn_norm");
  replace("pre_feedforward_layernorm", "ffn_norm");
  replace("post_feedforward_layernorm", "post_ffw_norm");
  for (const char which : {'q', 'k', 'v'})
    replace(fmt::format("self_attn.{}_proj", which), fmt::format("attn_{}", which));
  replace("self_attn.q_norm", "attn_q_norm");
  replace("self_attn.k_norm", "attn_k_norm");
  replace("self_attn.o_proj", "attn_output");
  for (const char* part : {"gate", "up", "down"})
    replace(fmt::format("mlp.{}_proj", part), fmt::format("ffn_{}", part));
  return name;
}

// What the converter does to the numbers: pairs of Llama's Q and K rows are interleaved, Gemma's norms get 1.
std::vector<float> gguf_values(const Weights& weights, size_t tensor) {
  const ModelConfig& config = weights.config();
  const std::string& name = weights.manifest()[tensor].name;
  const std::span<const float> own = weights.tensor(tensor);
  std::vector<float> values(own.begin(), own.end());
  if (config.norm_plus_one && name.ends_with("norm.weight")) {
    for (float& value : values) value += 1;
  }
  if (config.model_type != "llama" || !(name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight"))) {
    return values;
  }
  const int width = config.hidden_size, d = config.head_dim;
  for (int row = 0; row < static_cast<int>(values.size()) / width; ++row) {
    const int head = row / d, half = row % d / (d / 2), pair = row % (d / 2);
    std::copy_n(own.begin() + row * width, width, values.begin() + (head * d + 2 * pair + half) * width);
  }
  return values;
}

void add_tensors(const Weights& weights, GgufBuilder& builder) {
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    const TensorInfo& info = weights.manifest()[i];
    builder.add_tensor(gguf_name(info.name, weights.config().norm_plus_one), info.shape, GgufTensorType::kF32,
                       bytes_of(gguf_values(weights, i)));
  }
}

// Weights in steps of 1/64, so that adding 1 and taking it away is exact.
Weights coarse_weights(const ModelConfig& config) {
  Weights weights = initialize_weights(config, 7);
  for (float& value : weights.values()) value = std::round(value * 64) / 64;
  return weights;
}

TEST(GgufModel, EveryFamilyGivesTheWeightsAndConfigurationOfItsDirectory) {
  TestFolder folder;
  for (const char* type : {"llama", "qwen2", "qwen3", "gemma2", "gemma3_text"}) {
    ModelConfig config = tiny_config(type);
    const std::string prefix = std::string(find_family(type)->gguf) + ".";
    GgufBuilder builder;
    add_sizes(config, prefix, builder);
    if (config.norm_plus_one) {
      config.tie_word_embeddings = true;
      config.query_pre_attn_scalar = static_cast<float>(config.head_dim);
      config.sliding_window = 9;
      config.sliding_layers = {true, !config.attention_bias && config.qk_norm};
      builder.add_uint(prefix + "attention.sliding_window", 9);
    }
    if (std::string(type) == "gemma2") {
      config.attn_logit_softcapping = 40;
      config.final_logit_softcapping = 30;
      builder.add_float(prefix + "attn_logit_softcapping", 40);
    }
    if (std::string(type) == "gemma3_text") {
      config.rope_local_theta = 10000;
      config.rope_scaling = {.type = RopeScalingType::kLinear, .factor = 8};
      builder.add_string(prefix + "rope.scaling.type", "linear");
      builder.add_float(prefix + "rope.scaling.factor", 8);
    }
    const Weights weights = coarse_weights(config);
    add_tensors(weights, builder);
    const auto path = folder.write("model.gguf", builder.build());
    EXPECT_EQ(load_model_config(path), config) << type;
    const Weights loaded = load_model_weights(path);
    for (size_t i = 0; i < weights.manifest().size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(loaded.tensor(i), weights.tensor(i)))
          << type << weights.manifest()[i].name;
    }
  }
}

TEST(GgufModel, Llama3ScalingIsReadFromItsDivisors) {
  ModelConfig config = tiny_config("llama");
  config.head_dim = 64;
  config.rope_theta = 500000;
  GgufBuilder builder;
  add_sizes(config, "llama.", builder);
  const std::vector<double> plain = rope_frequencies(config);
  config.rope_scaling = {.type = RopeScalingType::kLlama3,
                         .factor = 32,
                         .original_max_position_embeddings = 8192,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4};
  const std::vector<double> scaled = rope_frequencies(config);
  std::vector<float> divisors(plain.size());
  for (size_t i = 0; i < plain.size(); ++i) divisors[i] = static_cast<float>(plain[i] / scaled[i]);
  GgufBuilder wrong = builder;
  builder.add_tensor("rope_freqs.weight", {32}, GgufTensorType::kF32, bytes_of(divisors));
  divisors[3] *= 1.5f;
  wrong.add_tensor("rope_freqs.weight", {32}, GgufTensorType::kF32, bytes_of(divisors));
  const Weights weights(config);
  add_tensors(weights, builder);
  add_tensors(weights, wrong);
  TestFolder folder;
  EXPECT_EQ(load_model_weights(folder.write("a.gguf", builder.build())).config().rope_scaling,
            config.rope_scaling);
  const auto path = folder.write("b.gguf", wrong.build());
  EXPECT_THAT(input_error_of([&] { load_model_config(path); }),
              AllOf(HasSubstr("b.gguf"), HasSubstr("rope_freqs.weight")));
}

std::string refusal_of(const GgufBuilder& builder) {
  TestFolder folder;
  const auto path = folder.write("model.gguf", builder.build());
  const std::string sentence = input_error_of([&] { load_model_weights(path); });
  EXPECT_THAT(sentence, HasSubstr("model.gguf"));
  return sentence;
}

TEST(GgufModel, RefusesByName) {
  const ModelConfig config = tiny_config("llama");
  const Weights weights(config);
  GgufBuilder good;
  add_sizes(config, "llama.", good);
  GgufBuilder builder;
  builder.add_string("general.architecture", "mamba");
  EXPECT_THAT(refusal_of(builder), AllOf(HasSubstr("general.architecture"), HasSubstr("mamba")));
  EXPECT_THAT(refusal_of(good), HasSubstr("token_embd.weight"));
  builder = good;
  builder.add_uint("llama.expert_count", 8);
  EXPECT_THAT(refusal_of(builder), HasSubstr("'llama.expert_count'"));
  builder = good;
  builder.add_tensor("token_embd.weight", {11, 8}, GgufTensorType::kF32, std::string(352, '\0'));
  EXPECT_THAT(refusal_of(builder),
              AllOf(HasSubstr("missing: model.layers.0.input_layernorm"), HasSubstr("model.norm.weight")));
  builder.add_tensor("blk.0.attn_sinks.weight", {1}, GgufTensorType::kF32, std::string(4, '\0'));
  EXPECT_THAT(refusal_of(builder), HasSubstr("unknown: blk.0.attn_sinks.weight"));
  builder = GgufBuilder();
  builder.add_string("general.architecture", "llama");
  EXPECT_THAT(refusal_of(builder), HasSubstr("llama.embedding_length"));
}

TEST(GgufModel, TensorsOfTypesThatAreNotReadAreRefused) {
  ModelConfig config = tiny_config("llama");
  config.hidden_size = 256;
  GgufBuilder builder;
  add_sizes(config, "llama.", builder);
  const Weights weights(config);
  for (const TensorInfo& info : weights.manifest()) {
    const bool down = info.name == "model.layers.0.mlp.gate_proj.weight";
    const auto type = static_cast<GgufTensorType>(down ? 10 : 0);  // Q2_K: 84 bytes for 256 elements
    builder.add_tensor(
        gguf_name(info.name, false), info.shape, type,
        std::string(static_cast<size_t>(info.element_count()) * (down ? 84 : 4 * 256) / 256, '\0'));
  }
  EXPECT_THAT(refusal_of(builder), AllOf(HasSubstr("blk.0.ffn_gate.weight"), HasSubstr("Q2_K")));
}

}  // namespace
}  // namespace stoker
