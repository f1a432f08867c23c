#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace stoker {

// Control tokens of a fresh tokenizer, with the names that Qwen uses. <|endoftext|> is the padding,
// <|im_end|> ends a turn; the first three are marked special, the tags are not.
const std::vector<std::string>& builder_control_tokens();

// The words that `stoker init` gives a small model: the fixed parts of calculator conversations, a token
// each, so that an episode is about half as long as in single characters.
const std::vector<std::string>& builder_default_words();

// A byte-level tokenizer.json without merges: ids 0 to 95 are newline and printable ASCII in their order,
// then come the other bytes up to 255, the control tokens, and `words`, each one token wherever it occurs in
// text (longest first from the left). A word that is a single byte, occurs twice, looks like a tag or
// contains a digit throws Error(kInput): digits stay single.
Json build_tokenizer_json(const std::vector<std::string>& words);

// Writes tokenizer.json, tokenizer_config.json (with a chat template equal to ChatMlRenderer) and
// special_tokens_map.json into an existing folder, for Stoker and for transformers.
void write_tokenizer(const std::filesystem::path& folder, const std::vector<std::string>& words);

// The chat template that write_tokenizer writes: ChatMlRenderer in transformers' Jinja.
std::string_view chatml_template();

}  // namespace stoker
