#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace stoker {

// tiktoken's files (openai/tiktoken): a line holds a token's bytes in base64, a blank and its rank, which is
// its id. The pattern that cuts text and the special tokens are not in the file.

// The public vocabularies that are written so, by their patterns and special tokens.
enum class TiktokenKind { kGpt2, kCl100k, kO200k, kLlama3, kQwen };

// "gpt2", "cl100k", "o200k", "llama3", "qwen"; nothing for other names.
std::optional<TiktokenKind> tiktoken_kind(std::string_view name);

// The description of the file in `bytes` as a tokenizer.json, as transformers' TikTokenConverter writes it:
// every pair of tokens that makes up a token merges, by its rank. `config`: the tokenizer_config.json beside
// it, null without one; its added_tokens_decoder names the special tokens, else they are those of the kind.
// Without `kind` it is told by the number of ranks, which each kind has of its own. Throws Error(kInput)
// naming `what` and the line.
Json tiktoken_json(std::string_view bytes, std::optional<TiktokenKind> kind, const Json& config,
                   const std::string& what);

}  // namespace stoker
