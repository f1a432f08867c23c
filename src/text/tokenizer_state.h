#pragma once

#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"

namespace stoker {

// What a tokenizer knows; filled once by read_tokenizer_json.
struct TokenizerState {
  struct Token {
    std::string bytes;
    bool present = false;  // ids may have holes
    bool special = false;
    bool control = false;
  };

  std::string what;           // names the tokenizer in errors
  std::vector<Token> tokens;  // by id
  StringToId ids;             // by name in the file, by content for added tokens
  BpeModel bpe;
  AddedTokenFinder added;
  bool split_words = false;  // GPT-2's pattern cuts the text before BPE
};

// Reads a parsed tokenizer.json; throws Error(kInput) as Tokenizer::load says.
TokenizerState read_tokenizer_json(const Json& json, const std::string& what);

}  // namespace stoker
