#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace stoker {

// A vocabulary of SentencePiece's kind, out of a tokenizer.model or a GGUF file.
struct PieceVocabulary {
  enum class Kind { kUnigram, kBpe };
  // The numbers are those of both files.
  enum class Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string_view text;  // UTF-8, with U+2581 for a blank; a view of the file
    double score = 0;
    Type type = Type::kNormal;
  };

  Kind kind = Kind::kBpe;
  std::vector<Piece> pieces;  // by id
  std::string charsmap;       // compiled map of characters; empty: the identity
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;
  bool byte_fallback = false;
  std::vector<int32_t> before;  // put in front of a text by the model's makers
  std::vector<int32_t> after;
};

// The description of `vocabulary` that Hugging Face's converters write for Llama, Mistral and Gemma
// (transformers/convert_slow_tokenizer.py): pairs merge in the order of their scores, user-defined pieces are
// added tokens, control pieces special ones. Its normalizer is SentencePiece's own, step by step. Throws
// Error(kInput) naming `what` and the piece where the vocabulary is broken or of a kind that is not
// supported. Takes time and memory in proportion to the sum of the pieces' lengths, of at most 512 bytes
// each.
Json piece_vocabulary_json(const PieceVocabulary& vocabulary, const std::string& what);

// "post_processor" with these tokens around a text; null without any. `names`: by id.
Json template_processing_json(const std::vector<int32_t>& before, const std::vector<int32_t>& after,
                              const std::vector<std::string_view>& names);

// An entry of "added_tokens", taken as it is written.
Json added_token_json(int32_t id, std::string_view content, bool special);

}  // namespace stoker
