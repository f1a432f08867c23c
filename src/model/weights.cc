#include "model/weights.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"

namespace stoker {
namespace {

void append_layer(const ModelConfig& config, int32_t layer, std::vector<TensorInfo>& manifest) {
  int64_t width = config.hidden_size;
  int64_t query = config.query_size();
  int64_t key_value = config.key_value_size();
  std::string prefix = fmt::format("model.layers.{}.", layer);
  auto add = [&](const char* name, std::vector<int64_t> shape) {
    manifest.push_back({prefix + name, std::move(shape)});
  };
  add("input_layernorm.weight", {width});
  add("self_attn.q_proj.weight", {query, width});
  add("self_attn.k_proj.weight", {key_value, width});
  add("self_attn.v_proj.weight", {key_value, width});
  if (config.attention_bias) {
    add("self_attn.q_proj.bias", {query});
    add("self_attn.k_proj.bias", {key_value});
    add("self_attn.v_proj.bias", {key_value});
  }
  if (config.qk_norm) {
    add("self_attn.q_norm.weight", {config.head_dim});
    add("self_attn.k_norm.weight", {config.head_dim});
  }
  add("self_attn.o_proj.weight", {width, query});
  add("post_attention_layernorm.weight", {width});
  if (config.sandwich_norm) {
    add("pre_feedforward_layernorm.weight", {width});
    add("post_feedforward_layernorm.weight", {width});
  }
  add("mlp.gate_proj.weight", {config.intermediate_size, width});
  add("mlp.up_proj.weight", {config.intermediate_size, width});
  add("mlp.down_proj.weight", {width, config.intermediate_size});
}

// Standard deviation of a fresh matrix (reference recipe in weights.h).
double initial_deviation(const ModelConfig& config, const TensorInfo& info) {
  if (info.name == "model.embed_tokens.weight") return config.tie_word_embeddings ? 0.02 : 1.0;
  if (info.name == "lm_head.weight") return 0.02;
  double deviation = 1.0 / std::sqrt(static_cast<double>(info.shape[1]));
  bool output = info.name.ends_with("o_proj.weight") || info.name.ends_with("down_proj.weight");
  return output ? deviation / std::sqrt(2.0 * config.num_hidden_layers) : deviation;
}

}  // namespace

int64_t TensorInfo::element_count() const {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

std::vector<TensorInfo> weight_manifest(const ModelConfig& config) {
  std::vector<TensorInfo> manifest;
  manifest.push_back({"model.embed_tokens.weight", {config.vocab_size, config.hidden_size}});
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) append_layer(config, layer, manifest);
  manifest.push_back({"model.norm.weight", {config.hidden_size}});
  if (!config.tie_word_embeddings) {
    manifest.push_back({"lm_head.weight", {config.vocab_size, config.hidden_size}});
  }
  return manifest;
}

Weights::Weights(const ModelConfig& config) : config_(config) {
  validate(config);
  manifest_ = weight_manifest(config);
  offsets_.push_back(0);
  for (const TensorInfo& info : manifest_) offsets_.push_back(offsets_.back() + info.element_count());
  values_.resize(static_cast<size_t>(offsets_.back()));
}

std::span<float> Weights::tensor(size_t index) {
  if (index >= manifest_.size()) {
    throw internal_error(
        fmt::format("Tensor {} was asked of weights with {} tensors.", index, manifest_.size()));
  }
  return std::span<float>(values_).subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

std::span<const float> Weights::tensor(size_t index) const {
  return const_cast<Weights*>(this)->tensor(index);
}

std::span<float> Weights::tensor(const std::string& name) {
  for (size_t i = 0; i < manifest_.size(); ++i) {
    if (manifest_[i].name == name) return tensor(i);
  }
  throw internal_error(fmt::format("The model of type '{}' has no tensor '{}'.", config_.model_type, name));
}

std::span<const float> Weights::tensor(const std::string& name) const {
  return const_cast<Weights*>(this)->tensor(name);
}

uint64_t Weights::digest() const {
  Hasher64 hash;
  for (size_t i = 0; i < manifest_.size(); ++i) {
    const TensorInfo& info = manifest_[i];
    hash.add(info.name.c_str(), info.name.size() + 1);
    uint64_t dimensions = info.shape.size();
    hash.add(&dimensions, sizeof(dimensions));
    hash.add(info.shape.data(), info.shape.size() * sizeof(int64_t));
    std::span<const float> values = tensor(i);
    hash.add(values.data(), values.size_bytes());
  }
  return hash.digest();
}

Weights initialize_weights(const ModelConfig& config, uint64_t seed) {
  Weights weights(config);
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    const TensorInfo& info = weights.manifest()[i];
    std::span<float> values = weights.tensor(i);
    if (info.shape.size() == 1) {
      float constant = config.norm_plus_one || info.name.ends_with(".bias") ? 0.0f : 1.0f;
      for (float& value : values) value = constant;
      continue;
    }
    double deviation = initial_deviation(config, info);
    RandomStream stream({.run_seed = seed, .purpose = RandomPurpose::kInit, .task_ordinal = i});
    for (float& value : values) value = static_cast<float>(stream.normal() * deviation);
  }
  return weights;
}

}  // namespace stoker
