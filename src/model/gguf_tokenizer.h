#pragma once

#include <filesystem>

#include "model/gguf.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace stoker {

// The vocabulary that the metadata of `file` describes; views of the file. Throws Error(kInput) naming file
// and key.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

// The tokenizer at `path`, whatever its format: a GGUF file, a folder that holds one and no other tokenizer,
// or what Tokenizer::load takes. Throws Error(kInput) naming the file, the place and the remedy.
TokenizerPtr load_tokenizer(const std::filesystem::path& path);

}  // namespace stoker
