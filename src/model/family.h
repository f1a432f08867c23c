#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/config.h"

namespace stoker {

// What Hugging Face's class of one model_type fixes without a key in config.json, and the values of keys
// that are left out. docs/models.md says how to add a family.
struct ModelFamily {
  const char* model_type;
  const char* architecture;  // the class, in "architectures"
  const char* gguf;          // general.architecture of its GGUF files

  // Switches of ModelConfig.
  bool attention_bias = false;
  bool qk_norm = false;
  bool gemma = false;  // activation, norm_plus_one, sandwich_norm and scale_embedding as Gemma 2 has them

  // Keys left out of config.json.
  int32_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  float rope_theta = 10000.0f;
  float rope_local_theta = 0;
  bool tied = false;
  float attn_logit_softcapping = 0;
  float final_logit_softcapping = 0;
  int32_t sliding_window = 0;
  int32_t global_every = 0;  // every so many-th layer is global and the others slide; 0: no such rule
};

std::span<const ModelFamily> model_families();
// By model_type, or by general.architecture of a GGUF file; null when there is none.
const ModelFamily* find_family(const std::string& model_type);
const ModelFamily* find_gguf_family(const std::string& architecture);
// "'llama', 'qwen2' and ...": for sentences.
std::string model_family_names();

// Sets the switches of `config` that the family fixes, and its model_type.
void apply_family(const ModelFamily& family, ModelConfig& config);
// Whether the switches of `config` are those of the family.
bool fits_family(const ModelFamily& family, const ModelConfig& config);

}  // namespace stoker
