#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/word_scanner.h"

namespace stoker {

// The vocabulary inside a GGUF file (reference: ggml-org/ggml, docs/gguf.md, "Tokenizer"), as its metadata
// under "tokenizer.ggml." says; model/gguf_tokenizer.h fills it. Views of the file.
struct GgufVocabulary {
  std::string_view model;  // "llama": SentencePiece BPE, "t5": SentencePiece unigram, "gpt2": byte-level BPE
  std::string_view pre;    // of "gpt2", what cuts text: "llama-bpe", "qwen2", ...; empty where it is not said
  std::vector<std::string_view> tokens;
  std::vector<double> scores;            // of "llama" and "t5"
  std::vector<int64_t> types;            // as PieceVocabulary::Type numbers them; empty: all are normal
  std::vector<std::string_view> merges;  // of "gpt2": two names with a blank between, the earlier first
  std::string charsmap;                  // of "t5"
  std::optional<int64_t> bos;
  std::optional<int64_t> eos;
  std::optional<int64_t> unknown;
  std::optional<bool> add_bos;  // absent: the model's habit
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
};

// The description of `vocabulary` as a tokenizer.json. GGUF files keep neither normalizers nor the strip
// flags of added tokens; what "gpt2" vocabularies of a known `pre` normalize is what their makers'
// tokenizer.json says. Throws Error(kInput) naming `what` where lists do not fit, an id is outside the
// vocabulary, or the model or pre is not known.
Json gguf_vocabulary_json(const GgufVocabulary& vocabulary, const std::string& what);

// A ByteLevel pre-tokenizer that cuts by `pattern` (of GPT-2's and SmolLM's, the one that ByteLevel has built
// in).
Json byte_level_pre_tokenizer(WordPattern pattern);
// The ByteLevel decoder.
Json byte_level_decoder();

}  // namespace stoker
