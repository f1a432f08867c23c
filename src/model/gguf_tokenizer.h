#pragma once

#include <filesystem>
#include <optional>

#include "model/gguf.h"
#include "text/chat_template.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace stoker {

// The vocabulary that the metadata of `file` describes; views of the file. Throws Error(kInput) naming file
// and key.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

// What transformers keeps in tokenizer_config.json, of a GGUF file's metadata: "chat_template" (a list of
// named ones where it has several) and the special tokens' texts, as far as they are there.
Json gguf_tokenizer_config(const GgufFile& file);

// The GGUF file that the tokenizer at `path` comes from: `path` itself, or the one in a folder that holds no
// other tokenizer; empty where it comes from other files.
std::filesystem::path gguf_with_tokenizer(const std::filesystem::path& path);

// The tokenizer at `path`, whatever its format: a GGUF file, a folder that holds one and no other tokenizer,
// or what Tokenizer::load takes. Throws Error(kInput) naming the file, the place and the remedy.
TokenizerPtr load_tokenizer(const std::filesystem::path& path);

// The chat template of the model at `path`: that of its folder, else that of the GGUF file with its
// tokenizer; nothing for a model without one.
std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& path);
// The special tokens of such a model, as templates know them.
SpecialTokenNames load_special_tokens_of_model(const std::filesystem::path& path);

}  // namespace stoker
