#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stoker {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using StringToId = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

// A token of a word and how many of the word's bytes it stands for.
struct TokenPiece {
  int32_t id = 0;
  uint32_t size = 0;
};

// The model of a tokenizer: words (what pre-tokenization leaves) to tokens. Immutable; any number of threads
// may use one, each with a scratch of its own.
class TokenModel {
 public:
  // Buffers and caches that one thread reuses between words. They never change a result.
  struct Scratch {
    virtual ~Scratch() = default;
  };

  virtual ~TokenModel() = default;
  virtual std::unique_ptr<Scratch> make_scratch() const = 0;
  // Appends the tokens of `word`, which is not empty; their sizes add up to the word's. `scratch` comes from
  // this model's make_scratch.
  virtual void encode(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const = 0;
};

class TokenizerPart;

// A model read from tokenizer.json and the names of its tokens.
struct ModelVocabulary {
  std::unique_ptr<const TokenModel> model;
  std::vector<std::string> names;  // by id, as the file writes them
  std::vector<bool> present;       // ids may have holes
  StringToId ids;
};

// `part` is the member "model"; `byte_level`: words are bytes and names are written in GPT-2's map
// (byte_map.h), else both are UTF-8. `special`: names of special tokens, which text never becomes by itself.
// Throws Error(kInput) naming the file and the place.
ModelVocabulary read_token_model(const TokenizerPart& part, bool byte_level, const StringToId& special);

}  // namespace stoker
