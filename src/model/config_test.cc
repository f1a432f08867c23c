#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/testing/models.h"
#include "model/weights.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Json qwen3_json() { return model_config_to_json(tiny_config()); }

std::string refusal(const char* key, Json value, Json json = qwen3_json()) {
  json.set(key, std::move(value));
  return input_error_of([&] { model_config_from_json(json, "m/config.json"); });
}

TEST(ModelConfig, EveryFamilySurvivesTheTripThroughJson) {
  for (const ModelFamily& family : model_families()) {
    const char* type = family.model_type;
    for (bool tied : {false, true}) {
      ModelConfig config = tiny_config(type);
      config.rope_local_theta = family.rope_local_theta;
      if (family.gemma) config.query_pre_attn_scalar = 10.5f;
      config.tie_word_embeddings = tied;
      config.rope_theta = 500000.0f;
      config.rms_norm_eps = 1e-5f;
      config.eos_token_ids = {2, 5};
      Json json = model_config_to_json(config);
      EXPECT_EQ(model_config_from_json(Json::parse(json.dump()), "config.json"), config) << type;
      EXPECT_EQ(json.at("rms_norm_eps").dump(), "1e-05");
    }
  }
}

TEST(ModelConfig, ScalingsWindowsAndCapsSurviveTheTrip) {
  ModelConfig config = tiny_config("qwen2");
  config.sliding_window = 7;
  config.sliding_layers = {false, true};
  config.rope_scaling = {.type = RopeScalingType::kYarn,
                         .factor = 4,
                         .original_max_position_embeddings = 8,
                         .beta_fast = 30,
                         .beta_slow = 2,
                         .attention_factor = 1.25f,
                         .truncate = false};
  const auto again = [](const ModelConfig& c) {
    return model_config_from_json(Json::parse(model_config_to_json(c).dump()), "config.json");
  };
  EXPECT_EQ(again(config), config);
  config = tiny_config("llama");
  config.rope_scaling = {.type = RopeScalingType::kLlama3,
                         .factor = 8,
                         .original_max_position_embeddings = 16,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4};
  EXPECT_EQ(again(config), config);
  config.rope_scaling = {.type = RopeScalingType::kDynamic, .factor = 2};
  EXPECT_EQ(again(config), config);
  config = tiny_config("mistral");
  config.sliding_window = 6;
  config.sliding_layers = {true, true};
  EXPECT_EQ(again(config), config);
  config = tiny_config("gemma3_text");
  config.query_pre_attn_scalar = 168;
  config.attn_logit_softcapping = 50;
  config.final_logit_softcapping = 30;
  config.rope_local_theta = 100;
  config.sliding_window = 4;
  config.sliding_layers = {true, false};
  config.rope_scaling = {.type = RopeScalingType::kLinear, .factor = 8};
  EXPECT_EQ(again(config), config);
}

TEST(ModelConfig, GemmaKeysThatAreLeftOutAreThoseOfTransformers) {
  Json json = Json::parse(R"({"model_type": "gemma2", "vocab_size": 10, "hidden_size": 16,
    "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 8, "max_position_embeddings": 64,
    "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "cache_implementation": "hybrid"})");
  ModelConfig config = model_config_from_json(json, "config.json");
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.sliding_layers, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(config.sliding_window, 4096);
  EXPECT_EQ(config.attn_logit_softcapping, 50.0f);
  EXPECT_EQ(config.final_logit_softcapping, 30.0f);
  EXPECT_EQ(config.query_pre_attn_scalar, 256.0f);
  json.set("attn_logit_softcapping", Json());
  EXPECT_EQ(model_config_from_json(json, "config.json").attn_logit_softcapping, 0.0f);
  json.set("model_type", "gemma3_text");
  json.set("sliding_window_pattern", 2);
  json.set("rope_scaling", Json::object({{"factor", 8.0}, {"rope_type", "linear"}}));
  config = model_config_from_json(json, "config.json");
  EXPECT_EQ(config.rope_theta, 1e6f);
  EXPECT_EQ(config.rope_local_theta, 1e4f);
  EXPECT_EQ(config.rope_scaling.factor, 8.0f);
  EXPECT_EQ(config.final_logit_softcapping, 0.0f);
  EXPECT_EQ(config.sliding_layers, (std::vector<bool>{true, false, true}));
}

// The files of public checkpoints as their makers publish them.
constexpr const char* kPublished[] = {
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
      "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
      "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
      "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
      "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"},
      "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
      "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})",
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576,
      "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true,
      "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 9,
      "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1,
      "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16",
      "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
      "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152})",
    R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
      "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
      "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21,
      "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
      "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
      "use_sliding_window": false, "vocab_size": 151936})",
    R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
      "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
      "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
      "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
      "use_sliding_window": false, "vocab_size": 151936})",
    R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
      "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid",
      "eos_token_id": [1, 107], "final_logit_softcapping": 30.0, "head_dim": 256,
      "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
      "initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 8192,
      "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
      "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
      "sliding_window": 4096, "torch_dtype": "bfloat16", "transformers_version": "4.42.4", "use_cache": true,
      "vocab_size": 256000})",
    R"({"_sliding_window_pattern": 6, "architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2, "eos_token_id": 1,
      "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
      "hidden_size": 640, "initializer_range": 0.02, "intermediate_size": 2048,
      "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
        "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
        "sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
        "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
      "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
      "num_hidden_layers": 18, "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256,
      "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0, "rope_scaling": null, "rope_theta": 1000000.0,
      "sliding_window": 512, "torch_dtype": "bfloat16", "transformers_version": "4.55.0.dev0",
      "use_bidirectional_attention": false, "use_cache": true, "vocab_size": 262144})",
};

TEST(ModelConfig, ConfigurationsOfPublicCheckpointsAreReadAsTheyAre) {
  // Llama 3.2 1B, SmolLM2 135M, Qwen2.5 0.5B, Qwen3 0.6B, Gemma 2 2B, Gemma 3 270M.
  const int64_t parameters[] = {1235814400, 134515008, 494032768, 596049920, 2614341888, 268098176};
  for (size_t i = 0; i < std::size(kPublished); ++i) {
    const ModelConfig config = model_config_from_json(Json::parse(kPublished[i]), "config.json");
    EXPECT_EQ(config.parameter_count(), parameters[i]) << config.model_type;
    const Json written = model_config_to_json(config);
    EXPECT_EQ(model_config_from_json(written, "config.json"), config) << config.model_type;
  }
}

TEST(ModelConfig, AbsentTokensAreNull) {
  ModelConfig config = tiny_config();
  config.bos_token_id = -1;
  config.eos_token_ids = {};
  Json json = model_config_to_json(config);
  EXPECT_TRUE(json.at("bos_token_id").is_null());
  EXPECT_TRUE(json.at("eos_token_id").is_null());
  EXPECT_EQ(model_config_from_json(json, "config.json"), config);
}

TEST(ModelConfig, DefaultsAreThoseOfTransformers) {
  Json json =
      Json::parse(R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 8, "max_position_embeddings": 64})");
  ModelConfig config = model_config_from_json(json, "config.json");
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.rms_norm_eps, 1e-6f);
  EXPECT_EQ(config.rope_theta, 10000.0f);
  EXPECT_FALSE(config.tie_word_embeddings);
  json.set("model_type", "qwen3");
  EXPECT_EQ(model_config_from_json(json, "config.json").head_dim, 128);
}

TEST(ModelConfig, ReadsRotaryParametersOfEitherSpelling) {
  Json json = qwen3_json();
  json.set("rope_parameters", Json::object({{"rope_type", "default"}, {"rope_theta", 1000000.0}}));
  EXPECT_EQ(model_config_from_json(json, "config.json").rope_theta, 1e6f);
  EXPECT_THAT(refusal("rope_scaling", Json::object({{"rope_type", "llama3"}, {"factor", 8.0}})),
              AllOf(HasSubstr("m/config.json"), HasSubstr("rope_scaling"), HasSubstr("llama3")));
}

TEST(ModelConfig, RefusesByNameWhatWouldComputeSomethingElse) {
  for (const auto& [key, value] : Json::Object{
           {"hidden_act", "gelu"},
           {"mlp_bias", true},
           {"attention_bias", true},
           {"num_experts", 8},
           {"quantization_config", Json::object({{"bits", 4}})},
           {"partial_rotary_factor", 0.5},
           {"layer_types", Json::Array{"sliding_attention"}},
           {"architectures", Json::Array{"Qwen3ForSequenceClassification"}},
           {"some_new_thing", 3},
           {"rope_scaling", Json::object({{"rope_type", "longrope"}})},
           {"rope_scaling",
            Json::object({{"rope_type", "yarn"}, {"factor", 8}, {"original_max_position_embeddings", 1e30}})},
           {"rope_scaling", Json::object({{"rope_type", "linear"}, {"factor", 2}, {"new", 1}})},
           {"model_type", "gemma3"}}) {
    EXPECT_THAT(refusal(key.c_str(), value), AllOf(HasSubstr("m/config.json"), HasSubstr("'" + key + "'")));
  }
}

TEST(ModelConfig, RefusesWrongTypesAndSizes) {
  EXPECT_NO_THROW(model_config_from_json(
      [] {
        Json json = qwen3_json();
        json.set("some_new_switch", false);
        json.set("another", Json());
        json.set("_name_or_path", "x");
        return json;
      }(),
      "config.json"));
  EXPECT_THAT(refusal("hidden_size", "8"), HasSubstr("'hidden_size' must be an integer; it is \"8\""));
  EXPECT_THAT(refusal("hidden_size", 8.5), HasSubstr("'hidden_size'"));
  EXPECT_THAT(refusal("hidden_size", Json(int64_t{1} << 40)), HasSubstr("too large"));
  EXPECT_THAT(refusal("hidden_size", Json()), HasSubstr("missing"));
  EXPECT_THAT(refusal("hidden_size", 0), HasSubstr("hidden_size = 0"));
  EXPECT_THAT(refusal("num_hidden_layers", -3), HasSubstr("num_hidden_layers = -3"));
  EXPECT_THAT(refusal("num_key_value_heads", 3), AllOf(HasSubstr("= 4"), HasSubstr("= 3")));
  EXPECT_THAT(refusal("head_dim", 5), HasSubstr("head_dim = 5"));
  EXPECT_THAT(refusal("eos_token_id", 11), HasSubstr("eos_token_id = 11"));
  EXPECT_THAT(refusal("eos_token_id", Json::Array{2, "x"}), HasSubstr("'eos_token_id'"));
  EXPECT_THAT(refusal("rms_norm_eps", 0.0), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(refusal("tie_word_embeddings", 1), HasSubstr("'tie_word_embeddings' must be true or false"));
  Json huge = qwen3_json();
  huge.set("num_hidden_layers", 4000);
  huge.set("intermediate_size", 16000000);
  EXPECT_THAT(refusal("hidden_size", 16000000, huge), HasSubstr("parameters"));
  EXPECT_THAT(input_error_of([] { model_config_from_json(Json(3), "m/config.json"); }),
              HasSubstr("m/config.json"));
}

TEST(ModelConfig, CountsItsParameters) {
  for (const char* type : {"llama", "qwen2", "qwen3", "gemma2", "gemma3_text"}) {
    for (bool tied : {false, true}) {
      ModelConfig config = tiny_config(type);
      config.tie_word_embeddings = tied;
      int64_t total = 0;
      for (const TensorInfo& info : weight_manifest(config)) total += info.element_count();
      EXPECT_EQ(config.parameter_count(), total) << type;
    }
  }
}

TEST(ModelConfig, AnExportNeedsAClassThatComputesIt) {
  ModelConfig config = tiny_config("llama");
  config.qk_norm = true;
  EXPECT_THAT(input_error_of([&] { model_config_to_json(config); }), HasSubstr("qk_norm"));
}

}  // namespace
}  // namespace stoker
