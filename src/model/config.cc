#include "model/config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "model/rope.h"

namespace stoker {
namespace {

// Bounds that keep every product of two sizes far inside int64 and name an absurd file before memory does.
constexpr int64_t kLargestSize = int64_t{1} << 24;
constexpr int64_t kMostLayers = 4096;
constexpr double kMostParameters = 1e12;

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

void check_cap(const char* key, float cap) {
  if (cap >= 0 && std::isfinite(cap)) return;
  throw input_error(
      fmt::format("The model configuration has {} = {}; it must be above 0, or 0 for none.", key, cap));
}

void check_sliding(const ModelConfig& config) {
  if (config.sliding_layers.empty()) return;
  if (static_cast<int32_t>(config.sliding_layers.size()) != config.num_hidden_layers) {
    throw input_error(fmt::format("The model configuration has {} layer_types for {} num_hidden_layers.",
                                  config.sliding_layers.size(), config.num_hidden_layers));
  }
  check_size("sliding_window", config.sliding_window, int64_t{1} << 30);
}

}  // namespace

int64_t ModelConfig::parameter_count() const {
  int64_t width = hidden_size;
  int64_t attention = width * (2 * query_size() + 2 * key_value_size());
  if (attention_bias) attention += query_size() + 2 * key_value_size();
  if (qk_norm) attention += 2 * head_dim;
  int64_t layer = attention + 3 * width * intermediate_size + (sandwich_norm ? 4 : 2) * width;
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
  validate_rope(config);
  check_sliding(config);
  check_cap("query_pre_attn_scalar", config.query_pre_attn_scalar);
  check_cap("attn_logit_softcapping", config.attn_logit_softcapping);
  check_cap("final_logit_softcapping", config.final_logit_softcapping);
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

}  // namespace stoker
