#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/weights.h"

namespace stoker {

// The tensors of a checkpoint under the names of weight_manifest, whatever files, types and layouts they have
// there. Opening one reads no weights.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // The file, for sentences.
  virtual const std::string& name() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Tensor `index` as float32; `destination` has its element count. Throws Error(kInput) for types that are
  // no weights.
  virtual void read(size_t index, std::span<float> destination) const = 0;
};

// model.safetensors of a Hugging Face directory, or the shards that model.safetensors.index.json names.
// Throws Error(kInput) when neither is there, or when index and shards disagree.
std::unique_ptr<TensorSource> open_safetensors(const std::filesystem::path& directory);

// Elements read so far, of how many. Called now and then from the reading thread.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// The weights of `config`, which must be exactly the tensors of `source`. Throws one Error(kInput) that lists
// every missing, unknown and misshapen tensor, or names one with a number that is not finite.
Weights read_weights(const TensorSource& source, const ModelConfig& config,
                     const LoadProgress& progress = {});

}  // namespace stoker
