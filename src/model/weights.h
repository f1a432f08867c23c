#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"

namespace stoker {

// Name and shape of one tensor, as Hugging Face names it ("model.layers.0.self_attn.q_proj.weight", [H*d,
// D]).
struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;

  int64_t element_count() const;
  bool operator==(const TensorInfo&) const = default;
};

// Every tensor of the architecture in a fixed order; a tied LM head does not occur. Linear layers are
// [out, in] row-major, as Hugging Face stores them.
std::vector<TensorInfo> weight_manifest(const ModelConfig& config);

// The float32 weights of a model: immutable once shared, versioned, passed as shared_ptr<const Weights>.
// All tensors lie in one buffer in manifest order, so that optimizers and digests can walk them as one array.
class Weights {
 public:
  // Zeros of the manifest's shapes.
  explicit Weights(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  const std::vector<TensorInfo>& manifest() const { return manifest_; }

  // Number of optimizer steps that made these weights.
  int64_t version() const { return version_; }
  void set_version(int64_t version) { version_ = version; }

  // One tensor by manifest index or by name; an unknown name throws Error(kInternal).
  std::span<float> tensor(size_t index);
  std::span<const float> tensor(size_t index) const;
  std::span<float> tensor(const std::string& name);
  std::span<const float> tensor(const std::string& name) const;

  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }

  // 64-bit digest of names, shapes and bytes.
  uint64_t digest() const;

 private:
  ModelConfig config_;
  std::vector<TensorInfo> manifest_;
  std::vector<int64_t> offsets_;  // [tensors + 1] into values_
  std::vector<float> values_;
  int64_t version_ = 0;
};

using WeightsPtr = std::shared_ptr<const Weights>;

// Fresh weights: embedding N(0, 1), LM head N(0, 0.02), matrices N(0, 1/fan_in), output projections (o_proj,
// down_proj) further divided by sqrt(2L), norms 1 (0 with norm_plus_one), biases 0. A tied embedding is N(0,
// 0.02).
Weights initialize_weights(const ModelConfig& config, uint64_t seed);

}  // namespace stoker
