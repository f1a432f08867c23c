#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace stoker {

// What stands between the two halves of the gated MLP.
enum class Activation {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

// How rotary frequencies are stretched for contexts longer than those of pre-training. Names and formulas are
// those of rope_type in transformers (modeling_rope_utils.py).
enum class RopeScalingType {
  kNone,
  kLinear,   // all frequencies divided by `factor`
  kDynamic,  // plain: it differs only beyond max_position_embeddings, where contexts end here
  kLlama3,   // long wavelengths divided by `factor`, middle ones blended
  kYarn,     // Peng et al. 2023 (arXiv 2309.00071), section 3.4
};
struct RopeScaling {
  RopeScalingType type = RopeScalingType::kNone;
  float factor = 1.0f;
  int32_t original_max_position_embeddings = 0;     // positions of pre-training (llama3, yarn)
  float low_freq_factor = 0, high_freq_factor = 0;  // llama3
  float beta_fast = 0, beta_slow = 0;               // yarn: rotations over the original context
  float attention_factor = 1.0f;                    // on cosines and sines: scores grow by its square (yarn)
  bool truncate = true;                             // yarn: the blend's bounds are whole numbers

  bool operator==(const RopeScaling&) const = default;
};

// The architecture of a decoder-only transformer: RMSNorm, rotary positions, grouped-query attention, gated
// MLP. A family (family.h) fixes the switches; field names follow Hugging Face's config.json where it has
// them.
struct ModelConfig {
  std::string model_type = "qwen3";     // names the family and the Hugging Face class of an export
  int32_t vocab_size = 0;               // V: rows of the embedding
  int32_t hidden_size = 0;              // D
  int32_t num_hidden_layers = 0;        // L
  int32_t num_attention_heads = 0;      // H
  int32_t num_key_value_heads = 0;      // KV heads; divides H
  int32_t head_dim = 0;                 // d; H * d need not equal D
  int32_t intermediate_size = 0;        // F: width of the gated MLP
  int32_t max_position_embeddings = 0;  // longest context, tokens
  float rms_norm_eps = 1e-6f;
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;  // the LM head is the embedding
  bool attention_bias = false;       // bias on the Q, K and V projections (qwen2)
  bool qk_norm = false;              // RMSNorm over each head of Q and K before rotation (qwen3, gemma3)
  Activation activation = Activation::kSilu;
  bool norm_plus_one = false;         // norms multiply by 1 + weight (gemma)
  bool sandwich_norm = false;         // norms behind attention and MLP too, before their sums (gemma)
  bool scale_embedding = false;       // embeddings times sqrt(D) (gemma)
  float query_pre_attn_scalar = 0;    // scores are divided by its root; 0: head_dim
  float attn_logit_softcapping = 0;   // c: scores become c tanh(score / c); 0: none
  float final_logit_softcapping = 0;  // the same for logits
  int32_t sliding_window = 0;         // tokens that a sliding layer sees, its own included
  std::vector<bool> sliding_layers;   // [L] which layers slide; empty: none
  float rope_local_theta = 0;         // rope_theta of sliding layers, which are not scaled; 0: as the others
  int32_t bos_token_id = -1;          // -1: none
  std::vector<int32_t> eos_token_ids;
  int32_t pad_token_id = -1;

  int32_t query_size() const { return num_attention_heads * head_dim; }      // H * d
  int32_t key_value_size() const { return num_key_value_heads * head_dim; }  // width of K and of V
  // Tokens that layer `layer` sees; 0: all.
  int32_t window(int32_t layer) const {
    return !sliding_layers.empty() && sliding_layers[layer] ? sliding_window : 0;
  }
  int64_t parameter_count() const;

  bool operator==(const ModelConfig&) const = default;
};

// Throws Error(kInput) naming the key and both numbers when sizes do not fit together.
void validate(const ModelConfig& config);

// config.json to ModelConfig. A key that changes the computation in a way Stoker does not support (experts,
// quantisation, other rotary scalings), and a key that Stoker does not know, are refused by name. `what`
// names the file in errors.
ModelConfig model_config_from_json(const Json& json, const std::string& what);
// The config.json that transformers reads for the same computation.
Json model_config_to_json(const ModelConfig& config);

}  // namespace stoker
