#pragma once

#include <cstdint>
#include <filesystem>

#include "model/safetensors.h"
#include "model/tensor_source.h"
#include "model/weights.h"

namespace stoker {

// A model on disk: a Hugging Face directory (config.json, model.safetensors or shards with their index, the
// tokenizer's files beside them), or one GGUF file.

// Whether `path` names a GGUF file and not a directory.
bool is_gguf_path(const std::filesystem::path& path);

// The architecture, and the weights as float32 from whatever types they are stored in. Every missing, surplus
// or misshapen tensor is named in one Error(kInput).
ModelConfig load_model_config(const std::filesystem::path& path);
Weights load_model_weights(const std::filesystem::path& path, const LoadProgress& progress = {});

// Copies the tokenizer's files of a model directory, its chat template among them, into an existing folder,
// in place of those there. Throws Error(kInput) when there are none.
void copy_tokenizer(const std::filesystem::path& source, const std::filesystem::path& folder);
// Removes the tokenizer's files from a folder.
void remove_tokenizer(const std::filesystem::path& folder);

struct SaveOptions {
  TensorType type = TensorType::kF32;  // or kF16, kBF16: rounded to nearest
  // Larger weights are cut into shards of at most so many bytes of tensors (a larger tensor is one of its
  // own), with an index. 5 GB is the limit of transformers.
  int64_t max_shard_bytes = 5'000'000'000;
};

// Writes config.json, generation_config.json and the weights (tied ones once) into an existing folder. When
// `source`, the model that it comes from, is a directory, the tokenizer's files are copied from there, and
// its generation_config.json keeps its keys and its tokens to stop at.
void save_model(const std::filesystem::path& folder, const Weights& weights,
                const std::filesystem::path& source = {}, const SaveOptions& options = {});

}  // namespace stoker
