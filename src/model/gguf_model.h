#pragma once

#include <memory>

#include "model/config.h"
#include "model/gguf.h"
#include "model/tensor_source.h"

namespace stoker {

// The model in a GGUF file: its architecture by the keys, and its tensors by the names, of llama.cpp.

// Throws Error(kInput) that names the file and the key, where a key is missing or asks for what Stoker does
// not compute.
ModelConfig gguf_model_config(const GgufFile& file);

// The tensors under Hugging Face's names and in its layout: the rows of Llama's Q and K are put back in the
// order of halves, and norms of Gemma hold the weight without the 1 that the file has added. `file` must
// live as long as the source.
std::unique_ptr<TensorSource> open_gguf_tensors(const GgufFile& file, const ModelConfig& config);

}  // namespace stoker
