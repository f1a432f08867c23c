#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace stoker {

// The architecture of a decoder-only transformer of the Llama/Qwen family: RMSNorm, rotary positions,
// grouped-query attention, SwiGLU. Field names follow Hugging Face's config.json where it has them.
struct ModelConfig {
  std::string model_type = "qwen3";  // "llama", "qwen2", "qwen3": names the Hugging Face class of an export
  int32_t vocab_size = 0;            // V: rows of the embedding
  int32_t hidden_size = 0;           // D
  int32_t num_hidden_layers = 0;     // L
  int32_t num_attention_heads = 0;   // H
  int32_t num_key_value_heads = 0;   // KV heads; divides H
  int32_t head_dim = 0;              // d; H * d need not equal D
  int32_t intermediate_size = 0;     // F: width of the SwiGLU
  int32_t max_position_embeddings = 0;  // longest context, tokens
  float rms_norm_eps = 1e-6f;
  float rope_theta = 10000.0f;
  bool tie_word_embeddings = false;  // the LM head is the embedding
  bool attention_bias = false;       // bias on the Q, K and V projections (qwen2)
  bool qk_norm = false;              // RMSNorm over each head of Q and K before rotation (qwen3)
  int32_t bos_token_id = -1;         // -1: none
  std::vector<int32_t> eos_token_ids;
  int32_t pad_token_id = -1;

  int32_t query_size() const { return num_attention_heads * head_dim; }      // H * d
  int32_t key_value_size() const { return num_key_value_heads * head_dim; }  // width of K and of V
  int64_t parameter_count() const;

  bool operator==(const ModelConfig&) const = default;
};

// Throws Error(kInput) naming the key and both numbers when sizes do not fit together.
void validate(const ModelConfig& config);

// config.json to ModelConfig. A key that changes the computation in a way Stoker does not support (another
// activation, rope scaling, sliding windows, experts) is refused by name. `what` names the file in errors.
ModelConfig model_config_from_json(const Json& json, const std::string& what);
// The config.json that transformers reads for the same computation.
Json model_config_to_json(const ModelConfig& config);

}  // namespace stoker
