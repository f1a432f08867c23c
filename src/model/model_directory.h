#pragma once

#include <filesystem>
#include <string>

#include "model/weights.h"

namespace stoker {

// A Hugging Face model directory: config.json, model.safetensors, tokenizer files beside them.

// Reads config.json and the weights. Every missing, surplus or misshapen tensor is named in one
// Error(kInput).
ModelConfig load_model_config(const std::filesystem::path& directory);
Weights load_model_weights(const std::filesystem::path& directory);

// Writes config.json, generation_config.json and model.safetensors (float32, tied weights once) into an
// existing folder. When `source`, the directory of the model it comes from, is not empty, the tokenizer's
// files are copied from there, and its generation_config.json keeps its keys and its tokens to stop at.
void save_model(const std::filesystem::path& folder, const Weights& weights,
                const std::filesystem::path& source = {});

}  // namespace stoker
