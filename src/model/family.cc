#include "model/family.h"

#include <fmt/format.h>

namespace stoker {
namespace {

constexpr ModelFamily kFamilies[] = {
    {.model_type = "llama", .architecture = "LlamaForCausalLM", .gguf = "llama"},
    {.model_type = "mistral", .architecture = "MistralForCausalLM", .gguf = nullptr, .sliding_window = 4096},
    {.model_type = "qwen2", .architecture = "Qwen2ForCausalLM", .gguf = "qwen2", .attention_bias = true},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .gguf = "qwen3",
     .qk_norm = true,
     .head_dim = 128},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .gguf = "gemma2",
     .gemma = true,
     .head_dim = 256,
     .tied = true,
     .attn_logit_softcapping = 50,
     .final_logit_softcapping = 30,
     .sliding_window = 4096,
     .global_every = 2},
    {.model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .gguf = "gemma3",
     .qk_norm = true,
     .gemma = true,
     .head_dim = 256,
     .rope_theta = 1e6f,
     .rope_local_theta = 10000.0f,
     .tied = true,
     .sliding_window = 4096,
     .global_every = 6},
};

}  // namespace

std::span<const ModelFamily> model_families() { return kFamilies; }

const ModelFamily* find_family(const std::string& model_type) {
  for (const ModelFamily& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

const ModelFamily* find_gguf_family(const std::string& architecture) {
  for (const ModelFamily& family : kFamilies) {
    if (family.gguf != nullptr && architecture == family.gguf) return &family;
  }
  return nullptr;
}

std::string model_family_names() {
  std::string names;
  for (const ModelFamily& family : kFamilies) {
    if (&family != kFamilies) names += &family == &std::end(kFamilies)[-1] ? " and " : ", ";
    names += fmt::format("'{}'", family.model_type);
  }
  return names;
}

void apply_family(const ModelFamily& family, ModelConfig& config) {
  config.model_type = family.model_type;
  config.attention_bias = family.attention_bias;
  config.qk_norm = family.qk_norm;
  config.activation = family.gemma ? Activation::kGeluTanh : Activation::kSilu;
  config.norm_plus_one = config.sandwich_norm = config.scale_embedding = family.gemma;
}

bool fits_family(const ModelFamily& family, const ModelConfig& config) {
  ModelConfig fitted = config;
  apply_family(family, fitted);
  return fitted == config;
}

}  // namespace stoker
