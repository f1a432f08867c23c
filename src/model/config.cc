#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"

namespace stoker {
namespace {

// Bounds that keep every product of two sizes far inside int64 and name an absurd file before memory does.
constexpr int64_t kLargestSize = int64_t{1} << 24;
constexpr int64_t kMostLayers = 4096;
constexpr double kMostParameters = 1e12;

// What Hugging Face's class of a model type fixes without a key in config.json.
struct ModelFamily {
  const char* model_type;
  const char* architecture;
  bool attention_bias;
  bool qk_norm;
};
constexpr ModelFamily kFamilies[] = {
    {"llama", "LlamaForCausalLM", false, false},
    {"qwen2", "Qwen2ForCausalLM", true, false},
    {"qwen3", "Qwen3ForCausalLM", false, true},
};

const ModelFamily* find_family(const std::string& model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

void check_size(const char* key, int64_t value, int64_t largest) {
  if (value >= 1 && value <= largest) return;
  throw input_error(
      fmt::format("The model configuration has {} = {}; it must lie between 1 and {}.", key, value, largest));
}

void check_token(const char* key, int64_t id, int32_t vocab_size) {
  if (id >= -1 && id < vocab_size) return;
  throw input_error(
      fmt::format("The model configuration has {} = {}, outside the vocabulary of vocab_size = {}.", key, id,
                  vocab_size));
}

// Reads the keys of one config.json; every complaint names the file and the key.
class ModelConfigReader {
 public:
  ModelConfigReader(const Json& json, const std::string& what) : json_(json), what_(what) {
    if (!json.is_object())
      throw input_error(fmt::format("{} is {}, not a JSON object.", what, json.type_name()));
  }

  // A key that is absent or null counts as not given.
  const Json* find(const char* key) const {
    const Json* value = json_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Error bad(const char* key, const std::string& sentence) const {
    return input_error(fmt::format("{}: key '{}' {}", what_, key, sentence));
  }

  int32_t integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) throw bad(key, "is missing; a Hugging Face config.json of this model type has it.");
    return to_int32(key, *value);
  }
  int32_t integer(const char* key, int32_t absent) const {
    const Json* value = find(key);
    return value == nullptr ? absent : to_int32(key, *value);
  }
  int32_t to_int32(const char* key, const Json& value) const {
    if (!value.is_integer()) throw bad(key, fmt::format("must be an integer; it is {}.", value.dump()));
    double number = value.as_double();
    if (std::abs(number) > std::numeric_limits<int32_t>::max()) {
      throw bad(key, fmt::format("is {}, too large.", value.dump()));
    }
    return static_cast<int32_t>(value.as_int());
  }

  float number(const char* key, float absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_number()) throw bad(key, fmt::format("must be a number; it is {}.", value->dump()));
    return static_cast<float>(value->as_double());
  }

  bool boolean(const char* key, bool absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_bool()) throw bad(key, fmt::format("must be true or false; it is {}.", value->dump()));
    return value->as_bool();
  }

  std::string text(const char* key, const std::string& absent) const {
    const Json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_string()) throw bad(key, fmt::format("must be a string; it is {}.", value->dump()));
    return value->as_string();
  }

 private:
  const Json& json_;
  const std::string& what_;
};

// Rotary settings: rope_theta beside the other keys, or inside rope_parameters as newer transformers write
// it.
float read_rope(const ModelConfigReader& reader) {
  float theta = reader.number("rope_theta", 10000.0f);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = reader.find(key);
    if (rope == nullptr) continue;
    if (!rope->is_object()) throw reader.bad(key, "must be an object or null.");
    for (const auto& [name, value] : rope->as_object()) {
      bool plain_type = (name == "rope_type" || name == "type") && value == Json("default");
      if (name == "rope_theta" && value.is_number()) {
        theta = static_cast<float>(value.as_double());
      } else if (!plain_type && !value.is_null()) {
        throw reader.bad(key, fmt::format("sets '{}' to {}; Stoker supports plain rotary positions only.",
                                          name, value.dump()));
      }
    }
  }
  return theta;
}

// Refuses every key that changes the computation in a way the decoder does not implement.
void refuse_unsupported(const ModelConfigReader& reader, const ModelFamily& family) {
  if (const Json* list = reader.find("architectures")) {
    if (*list != Json(Json::Array{family.architecture})) {
      throw reader.bad("architectures", fmt::format("is {}; for model_type '{}' Stoker supports [\"{}\"].",
                                                    list->dump(), family.model_type, family.architecture));
    }
  }
  if (std::string activation = reader.text("hidden_act", "silu"); activation != "silu") {
    throw reader.bad("hidden_act", fmt::format("is '{}'; Stoker supports 'silu'.", activation));
  }
  if (const Json* layers = reader.find("layer_types")) {
    if (!layers->is_array()) throw reader.bad("layer_types", "must be a list.");
    for (const Json& type : layers->as_array()) {
      if (type != Json("full_attention")) {
        throw reader.bad("layer_types",
                         fmt::format("names {}; Stoker supports \"full_attention\".", type.dump()));
      }
    }
  }
  for (const char* key : {"use_sliding_window", "mlp_bias"}) {
    if (reader.boolean(key, false)) throw reader.bad(key, "is true; Stoker does not support it.");
  }
  if (reader.boolean("attention_bias", false) && !family.attention_bias) {
    throw reader.bad("attention_bias", "is true, which adds a bias to o_proj; Stoker does not support it.");
  }
  if (reader.number("partial_rotary_factor", 1.0f) != 1.0f) {
    throw reader.bad("partial_rotary_factor", "is not 1; Stoker rotates whole heads.");
  }
  for (const char* key :
       {"quantization_config", "num_experts", "num_local_experts", "n_routed_experts",
        "attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "logits_scaling",
        "attention_multiplier", "residual_multiplier", "embedding_multiplier", "no_rope_layers"}) {
    if (const Json* value = reader.find(key)) {
      throw reader.bad(key, fmt::format("is {}; Stoker does not support it.", value->dump()));
    }
  }
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

}  // namespace

int64_t ModelConfig::parameter_count() const {
  int64_t width = hidden_size;
  int64_t attention = width * (2 * query_size() + 2 * key_value_size());
  if (attention_bias) attention += query_size() + 2 * key_value_size();
  if (qk_norm) attention += 2 * head_dim;
  int64_t layer = attention + 3 * width * intermediate_size + 2 * width;
  int64_t embeddings = int64_t{vocab_size} * width * (tie_word_embeddings ? 1 : 2);
  return embeddings + num_hidden_layers * layer + width;
}

void validate(const ModelConfig& config) {
  check_size("vocab_size", config.vocab_size, kLargestSize);
  check_size("hidden_size", config.hidden_size, kLargestSize);
  check_size("num_hidden_layers", config.num_hidden_layers, kMostLayers);
  check_size("num_attention_heads", config.num_attention_heads, kMostLayers);
  check_size("num_key_value_heads", config.num_key_value_heads, kMostLayers);
  check_size("head_dim", config.head_dim, kMostLayers);
  check_size("intermediate_size", config.intermediate_size, kLargestSize);
  check_size("max_position_embeddings", config.max_position_embeddings, int64_t{1} << 30);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    throw input_error(
        fmt::format("The model configuration has num_attention_heads = {} and num_key_value_heads = {}; the "
                    "second must divide "
                    "the first.",
                    config.num_attention_heads, config.num_key_value_heads));
  }
  if (config.head_dim % 2 != 0) {
    throw input_error(fmt::format(
        "The model configuration has head_dim = {}; rotary positions need an even number.", config.head_dim));
  }
  if (!(config.rms_norm_eps > 0) || !std::isfinite(config.rms_norm_eps)) {
    throw input_error(fmt::format("The model configuration has rms_norm_eps = {}; it must be above 0.",
                                  config.rms_norm_eps));
  }
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) {
    throw input_error(
        fmt::format("The model configuration has rope_theta = {}; it must be above 0.", config.rope_theta));
  }
  double width = config.hidden_size;
  double layer =
      width * (2.0 * config.query_size() + 2.0 * config.key_value_size() + 3.0 * config.intermediate_size);
  double total = width * config.vocab_size * 2.0 + layer * config.num_hidden_layers;
  if (total > kMostParameters) {
    throw input_error(fmt::format(
        "The model configuration has hidden_size = {}, num_hidden_layers = {} and intermediate_size = {}: "
        "about {:.2g} "
        "parameters, more than the {:.0g} that Stoker accepts.",
        config.hidden_size, config.num_hidden_layers, config.intermediate_size, total, kMostParameters));
  }
  check_token("bos_token_id", config.bos_token_id, config.vocab_size);
  check_token("pad_token_id", config.pad_token_id, config.vocab_size);
  for (int32_t id : config.eos_token_ids) {
    if (id < 0) {
      throw input_error(fmt::format(
          "The model configuration has the eos_token_id {}; name token ids from 0 on, or leave the key out.",
          id));
    }
    check_token("eos_token_id", id, config.vocab_size);
  }
}

ModelConfig model_config_from_json(const Json& json, const std::string& what) {
  ModelConfigReader reader(json, what);
  ModelConfig config;
  config.model_type = reader.text("model_type", "");
  const ModelFamily* family = find_family(config.model_type);
  if (family == nullptr) {
    throw reader.bad("model_type", fmt::format("is '{}'; Stoker supports 'llama', 'qwen2' and 'qwen3'.",
                                               config.model_type));
  }
  refuse_unsupported(reader, *family);
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.num_hidden_layers = reader.integer("num_hidden_layers");
  config.num_attention_heads = reader.integer("num_attention_heads");
  config.num_key_value_heads = reader.integer("num_key_value_heads", config.num_attention_heads);
  // The defaults of transformers: Qwen3Config has 128, the others divide the hidden size.
  int32_t heads = config.num_attention_heads;
  int32_t head_dim = family->qk_norm ? 128 : (heads > 0 ? config.hidden_size / heads : 0);
  config.head_dim = reader.integer("head_dim", head_dim);
  config.intermediate_size = reader.integer("intermediate_size");
  config.max_position_embeddings = reader.integer("max_position_embeddings");
  config.rms_norm_eps = reader.number("rms_norm_eps", 1e-6f);
  config.rope_theta = read_rope(reader);
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  config.attention_bias = family->attention_bias;
  config.qk_norm = family->qk_norm;
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
  if (family == nullptr || family->attention_bias != config.attention_bias ||
      family->qk_norm != config.qk_norm) {
    throw input_error(
        fmt::format("No Hugging Face class computes model_type '{}' with attention_bias = {} and qk_norm = "
                    "{}; use 'llama' with "
                    "neither, 'qwen2' with attention_bias, or 'qwen3' with qk_norm.",
                    config.model_type, config.attention_bias, config.qk_norm));
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
      {"hidden_act", "silu"},
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
  if (!family->attention_bias) json.set("attention_bias", false);
  if (config.model_type != "llama") json.set("use_sliding_window", false);
  return json;
}

}  // namespace stoker
