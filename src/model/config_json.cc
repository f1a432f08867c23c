#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/config_reader.h"
#include "model/family.h"
#include "model/rope.h"

namespace stoker {
namespace {

// Keys that Stoker reads for some family, or checks.
constexpr const char* kReadKeys[] = {
    "architectures",
    "model_type",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "max_position_embeddings",
    "hidden_act",
    "hidden_activation",
    "rms_norm_eps",
    "rope_theta",
    "rope_local_base_freq",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_sliding_window",
    "sliding_window",
    "max_window_layers",
    "sliding_window_pattern",
    "layer_types",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "quantization_config",
    "is_encoder_decoder",
};
// Keys that never change what a forward pass without dropout computes.
constexpr const char* kIdleKeys[] = {
    "attention_dropout",
    "auto_map",
    "cache_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "embd_pdrop",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "max_length",
    "min_length",
    "model_max_length",
    "neftune_noise_alpha",
    "output_attentions",
    "output_hidden_states",
    "pretraining_tp",
    "problem_type",
    "resid_pdrop",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
    "use_return_dict",
};

bool is_in(std::span<const char* const> keys, const std::string& key) {
  return std::ranges::any_of(keys, [&](const char* other) { return key == other; });
}

// The rotary settings of one object: of rope_scaling beside rope_theta, or of rope_parameters as newer
// transformers write them.
class RopeReader {
 public:
  RopeReader(const ModelConfigReader& reader, const char* key, const Json& object)
      : reader_(reader), key_(key), object_(object) {
    if (!object.is_object()) throw reader.bad(key, "must be an object or null.");
  }

  void read(int32_t max_positions, float& theta, RopeScaling& scaling) {
    const Json* type = find("rope_type");
    if (type == nullptr) type = find("type");
    const std::string name = type == nullptr     ? "default"
                             : type->is_string() ? type->as_string()
                                                 : type->dump();
    if (!rope_type_from_name(name, scaling.type)) {
      throw reader_.bad(key_, fmt::format("has rope_type '{}'; Stoker supports 'default', 'linear', "
                                          "'dynamic', 'llama3' and 'yarn'.",
                                          name));
    }
    theta = number("rope_theta", theta);
    if (number("partial_rotary_factor", 1) != 1) {
      throw reader_.bad(key_, "sets 'partial_rotary_factor', which is not 1; Stoker rotates whole heads.");
    }
    if (scaling.type != RopeScalingType::kNone) scaling.factor = required("factor");
    if (scaling.type == RopeScalingType::kLlama3) {
      scaling.low_freq_factor = required("low_freq_factor");
      scaling.high_freq_factor = required("high_freq_factor");
    }
    if (scaling.type == RopeScalingType::kYarn) read_yarn(scaling);
    if (scaling.type == RopeScalingType::kLlama3 || scaling.type == RopeScalingType::kYarn) {
      scaling.original_max_position_embeddings = positions(max_positions);
    }
    refuse_rest();
  }

 private:
  const Json* find(const char* name) {
    used_.push_back(name);
    const Json* value = object_.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  float number(const char* name, float absent) {
    const Json* value = find(name);
    if (value == nullptr) return absent;
    if (!value->is_number()) {
      throw reader_.bad(key_, fmt::format("sets '{}' to {}; it must be a number.", name, value->dump()));
    }
    return static_cast<float>(value->as_double());
  }
  int32_t positions(int32_t absent) {
    const char* name = "original_max_position_embeddings";
    const Json* value = find(name);
    if (value == nullptr) return absent;
    const double number = value->is_number() ? value->as_double() : 0;
    if (number < 1 || number > (1 << 30) || number != std::floor(number)) {
      throw reader_.bad(key_,
                        fmt::format("sets '{}' to {}; it must be a number of tokens.", name, value->dump()));
    }
    return static_cast<int32_t>(number);
  }
  float required(const char* name) {
    if (find(name) == nullptr) {
      throw reader_.bad(key_, fmt::format("is {}, which lacks '{}'; rope_types other than 'default' need it.",
                                          object_.dump(), name));
    }
    return number(name, 0);
  }

  void read_yarn(RopeScaling& scaling) {
    scaling.beta_fast = number("beta_fast", 32);
    scaling.beta_slow = number("beta_slow", 1);
    const float scale = number("mscale", 0), scale_all = number("mscale_all_dim", 0);
    float factor = yarn_attention_factor(scaling.factor);
    if (scale != 0 && scale_all != 0) {
      factor = static_cast<float>(static_cast<double>(yarn_attention_factor(scaling.factor, scale)) /
                                  yarn_attention_factor(scaling.factor, scale_all));
    }
    scaling.attention_factor = number("attention_factor", factor);
    if (const Json* truncate = find("truncate")) {
      if (!truncate->is_bool()) throw reader_.bad(key_, "sets 'truncate', which must be true or false.");
      scaling.truncate = truncate->as_bool();
    }
  }

  // Numbers of another rope_type than the one there are without effect in transformers, but a sign that the
  // file means something else.
  void refuse_rest() {
    for (const auto& [name, value] : object_.as_object()) {
      const bool used = std::ranges::find(used_, name) != used_.end();
      if (used || value.is_null() || name == "type" || name == "original_max_position_embeddings") continue;
      throw reader_.bad(key_, fmt::format("sets '{}' to {}, which Stoker does not know for its rope_type.",
                                          name, value.dump()));
    }
  }

  const ModelConfigReader& reader_;
  const char* key_;
  const Json& object_;
  std::vector<std::string> used_;
};

void read_rope(const ModelConfigReader& reader, const ModelFamily& family, ModelConfig& config) {
  const int32_t positions = config.max_position_embeddings;
  config.rope_theta = reader.number("rope_theta", family.rope_theta);
  if (family.rope_local_theta != 0) {
    config.rope_local_theta = reader.number("rope_local_base_freq", family.rope_local_theta);
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = reader.find(key);
    if (rope == nullptr) continue;
    const Json* global = rope->is_object() ? rope->find("full_attention") : nullptr;
    const Json* local = rope->is_object() ? rope->find("sliding_attention") : nullptr;
    if (global == nullptr && local == nullptr) {
      RopeReader(reader, key, *rope).read(positions, config.rope_theta, config.rope_scaling);
      continue;
    }
    if (global != nullptr && !global->is_null()) {
      RopeReader(reader, key, *global).read(positions, config.rope_theta, config.rope_scaling);
    }
    if (local != nullptr && !local->is_null()) {
      RopeScaling plain;
      if (family.rope_local_theta == 0) config.rope_local_theta = config.rope_theta;
      RopeReader(reader, key, *local).read(positions, config.rope_local_theta, plain);
      if (plain.type != RopeScalingType::kNone) {
        throw reader.bad(key,
                         "scales the rotary positions of sliding_attention; Stoker scales those of "
                         "full_attention only.");
      }
    }
  }
}

// Refuses every key that changes the computation in a way the decoder does not implement, and every key that
// is not known at all, unless it is off (null, false).
void refuse_unsupported(const ModelConfigReader& reader, const ModelFamily& family) {
  if (const Json* list = reader.find("architectures")) {
    if (*list != Json(Json::Array{family.architecture})) {
      throw reader.bad("architectures", fmt::format("is {}; for model_type '{}' Stoker supports [\"{}\"].",
                                                    list->dump(), family.model_type, family.architecture));
    }
  }
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const std::string expected = family.gemma ? "gelu_pytorch_tanh" : "silu";
    const std::string activation = reader.text(key, expected);
    // Gemma's first configurations say "gelu" in hidden_act, which transformers overrides.
    if (activation == expected || (family.gemma && std::string(key) == "hidden_act")) continue;
    throw reader.bad(key, fmt::format("is '{}'; for model_type '{}' Stoker supports '{}'.", activation,
                                      family.model_type, expected));
  }
  for (const char* key : {"mlp_bias", "is_encoder_decoder"}) {
    if (reader.boolean(key, false)) throw reader.bad(key, "is true; Stoker does not support it.");
  }
  if (reader.boolean("attention_bias", false) && !family.attention_bias) {
    throw reader.bad("attention_bias", "is true, which adds a bias to o_proj; Stoker does not support it.");
  }
  if (reader.number("partial_rotary_factor", 1.0f) != 1.0f) {
    throw reader.bad("partial_rotary_factor", "is not 1; Stoker rotates whole heads.");
  }
  if (const Json* value = reader.find("quantization_config")) {
    throw reader.bad("quantization_config", fmt::format("is {}; Stoker does not support it.", value->dump()));
  }
  for (const auto& [key, value] : reader.keys()) {
    const bool off = value.is_null() || value == Json(false);
    if (off || key.starts_with("_") || is_in(kReadKeys, key) || is_in(kIdleKeys, key)) continue;
    throw reader.bad(key.c_str(),
                     fmt::format("is {}; Stoker does not know it and cannot tell whether it changes what the "
                                 "model computes. Remove it if it does not.",
                                 value.dump()));
  }
}

// Which layers slide by the rule of the family, when layer_types does not say it.
bool slides_by_rule(const ModelConfigReader& reader, const ModelFamily& family, int32_t layer) {
  if (family.global_every > 0) {
    const int32_t every = reader.integer("sliding_window_pattern", family.global_every);
    if (every < 1) throw reader.bad("sliding_window_pattern", "must be above 0.");
    return (layer + 1) % every != 0;
  }
  if (family.sliding_window > 0) return true;
  return layer >= reader.integer("max_window_layers", 28);
}

void read_sliding(const ModelConfigReader& reader, const ModelFamily& family, ModelConfig& config) {
  const bool always = family.sliding_window > 0;  // a null window then means none
  const bool on = always || reader.boolean("use_sliding_window", false);
  int32_t window = reader.integer("sliding_window", on && !reader.has("sliding_window") ? 4096 : 0);
  if (!on) window = 0;
  const Json* types = reader.find("layer_types");
  if (types != nullptr && !types->is_array()) throw reader.bad("layer_types", "must be a list.");
  std::vector<bool> sliding(std::clamp(config.num_hidden_layers, 0, 4096));
  if (types != nullptr) {
    sliding.clear();
    for (const Json& type : types->as_array()) {
      if (type != Json("full_attention") && type != Json("sliding_attention")) {
        throw reader.bad("layer_types", fmt::format("names {}; Stoker supports \"full_attention\" and "
                                                    "\"sliding_attention\".",
                                                    type.dump()));
      }
      sliding.push_back(type == Json("sliding_attention"));
    }
  } else if (window > 0) {
    for (size_t l = 0; l < sliding.size(); ++l) {
      sliding[l] = slides_by_rule(reader, family, static_cast<int32_t>(l));
    }
  }
  if (std::ranges::find(sliding, true) == sliding.end()) return;
  if (window == 0) {
    throw reader.bad("layer_types", "names \"sliding_attention\", but no sliding_window is set and in use.");
  }
  config.sliding_window = window;
  config.sliding_layers = std::move(sliding);
}

std::vector<int32_t> read_eos(const ModelConfigReader& reader) {
  const Json* value = reader.find("eos_token_id");
  if (value == nullptr) return {};
  if (!value->is_array()) return {reader.to_int32("eos_token_id", *value)};
  std::vector<int32_t> ids;
  for (const Json& id : value->as_array()) ids.push_back(reader.to_int32("eos_token_id", id));
  return ids;
}

// The double with the shortest decimal form that reads back to `value`: 1e-06 and not 9.99999997e-07.
Json shortest(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

Json token_or_null(int32_t id) { return id < 0 ? Json() : Json(id); }

// A soft-cap that is null is none, and one that is left out is the family's.
void read_gemma(const ModelConfigReader& reader, const ModelFamily& family, ModelConfig& config) {
  config.query_pre_attn_scalar = reader.number("query_pre_attn_scalar", 256);
  const auto cap = [&](const char* key, float absent) {
    return reader.has(key) ? reader.number(key, 0) : absent;
  };
  config.attn_logit_softcapping = cap("attn_logit_softcapping", family.attn_logit_softcapping);
  config.final_logit_softcapping = cap("final_logit_softcapping", family.final_logit_softcapping);
}

Json rope_scaling_to_json(const RopeScaling& scaling) {
  if (scaling.type == RopeScalingType::kNone) return Json();
  Json json =
      Json::object({{"rope_type", rope_type_name(scaling.type)}, {"factor", shortest(scaling.factor)}});
  if (scaling.type == RopeScalingType::kLlama3) {
    json.set("low_freq_factor", shortest(scaling.low_freq_factor));
    json.set("high_freq_factor", shortest(scaling.high_freq_factor));
  }
  if (scaling.type == RopeScalingType::kYarn) {
    json.set("beta_fast", shortest(scaling.beta_fast));
    json.set("beta_slow", shortest(scaling.beta_slow));
    json.set("attention_factor", shortest(scaling.attention_factor));
    if (!scaling.truncate) json.set("truncate", false);
  }
  if (scaling.original_max_position_embeddings > 0) {
    json.set("original_max_position_embeddings", scaling.original_max_position_embeddings);
  }
  return json;
}

// Keys that only some families have.
void add_family_keys(const ModelFamily& family, const ModelConfig& config, Json& json) {
  if (!family.attention_bias) json.set("attention_bias", false);
  if (config.rope_scaling.type != RopeScalingType::kNone) {
    json.set("rope_scaling", rope_scaling_to_json(config.rope_scaling));
  }
  if (family.rope_local_theta != 0) json.set("rope_local_base_freq", shortest(config.rope_local_theta));
  if (family.gemma) {
    const auto cap = [](float value) { return value == 0 ? Json() : shortest(value); };
    const float scalar = config.query_pre_attn_scalar;
    json.set("query_pre_attn_scalar", scalar == std::floor(scalar) && scalar < (1 << 20)
                                          ? Json(static_cast<int64_t>(scalar))
                                          : shortest(scalar));
    json.set("attn_logit_softcapping", cap(config.attn_logit_softcapping));
    json.set("final_logit_softcapping", cap(config.final_logit_softcapping));
  }
  const bool sliding = !config.sliding_layers.empty();
  const bool has_switch = family.attention_bias || (family.qk_norm && !family.gemma);
  if (has_switch) json.set("use_sliding_window", sliding);
  if (!has_switch && family.sliding_window == 0) return;
  if (!sliding && has_switch) return;
  json.set("sliding_window", sliding ? Json(config.sliding_window) : Json());
  // A mistral slides in every layer or in none.
  if (family.sliding_window > 0 && family.global_every == 0) return;
  Json::Array types;
  for (int32_t l = 0; l < config.num_hidden_layers; ++l) {
    types.push_back(config.window(l) > 0 ? "sliding_attention" : "full_attention");
  }
  if (sliding || family.gemma) json.set("layer_types", std::move(types));
}

}  // namespace

ModelConfig model_config_from_json(const Json& json, const std::string& what) {
  ModelConfigReader reader(json, what);
  ModelConfig config;
  config.model_type = reader.text("model_type", "");
  const ModelFamily* family = find_family(config.model_type);
  if (family == nullptr) {
    throw reader.bad("model_type",
                     fmt::format("is '{}'; Stoker supports {}.", config.model_type, model_family_names()));
  }
  refuse_unsupported(reader, *family);
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.num_hidden_layers = reader.integer("num_hidden_layers");
  config.num_attention_heads = reader.integer("num_attention_heads");
  config.num_key_value_heads = reader.integer("num_key_value_heads", config.num_attention_heads);
  const int32_t heads = config.num_attention_heads;
  const int32_t head_dim =
      family->head_dim > 0 ? family->head_dim : (heads > 0 ? config.hidden_size / heads : 0);
  config.head_dim = reader.integer("head_dim", head_dim);
  config.intermediate_size = reader.integer("intermediate_size");
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.rms_norm_eps = reader.number("rms_norm_eps", 1e-6f);
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", family->tied);
  apply_family(*family, config);
  read_rope(reader, *family, config);
  read_sliding(reader, *family, config);
  if (family->gemma) read_gemma(reader, *family, config);
  config.bos_token_id = reader.integer("bos_token_id", -1);
  config.pad_token_id = reader.integer("pad_token_id", -1);
  config.eos_token_ids = read_eos(reader);
  try {
    validate(config);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", what, error.what()));
  }
  return config;
}

Json model_config_to_json(const ModelConfig& config) {
  const ModelFamily* family = find_family(config.model_type);
  if (family == nullptr || !fits_family(*family, config)) {
    throw input_error(
        fmt::format("No Hugging Face class computes model_type '{}' with attention_bias = {}, qk_norm = {} "
                    "and the other switches of this configuration; the families are {}.",
                    config.model_type, config.attention_bias, config.qk_norm, model_family_names()));
  }
  Json eos;
  if (config.eos_token_ids.size() == 1) eos = config.eos_token_ids[0];
  if (config.eos_token_ids.size() > 1) {
    eos = Json::array();
    for (int32_t id : config.eos_token_ids) eos.as_array().push_back(id);
  }
  Json json = Json::object({
      {"architectures", Json::Array{family->architecture}},
      {"model_type", config.model_type},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"intermediate_size", config.intermediate_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {family->gemma ? "hidden_activation" : "hidden_act", family->gemma ? "gelu_pytorch_tanh" : "silu"},
      {"rms_norm_eps", shortest(config.rms_norm_eps)},
      {"rope_theta", shortest(config.rope_theta)},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"attention_dropout", 0.0},
      {"use_cache", true},
      {"torch_dtype", "float32"},
      {"bos_token_id", token_or_null(config.bos_token_id)},
      {"eos_token_id", eos},
      {"pad_token_id", token_or_null(config.pad_token_id)},
  });
  add_family_keys(*family, config, json);
  return json;
}

}  // namespace stoker
