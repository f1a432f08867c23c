#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace stoker {

// Where the tokens stand that a Detokenizer is given.
enum class TextPosition {
  kStart,     // they are a whole text: what decoding drops at its start is dropped
  kContinues  // they go on from tokens that are text already, as a model's answer does from its prompt
};

// Turns tokens into text as they come. Bytes are released as soon as they are certain: a character is held
// back until it is whole, bytes that can become none are released at once. What was released is never taken
// back, the joined releases are exactly Tokenizer::decode of all ids, and a token costs the same wherever it
// stands.
//
//   Detokenizer detokenizer(tokenizer);
//   for (int32_t id : ids) text += detokenizer.push(id);
//   text += detokenizer.finish();
//
// to_valid_utf8 of each release joins to to_valid_utf8 of the whole. Blanks are never cleaned up, whatever
// clean_up_tokenization_spaces says (shared case TOK-09): that undoes WordPiece, which is not supported.
class Detokenizer {
 public:
  explicit Detokenizer(TokenizerPtr tokenizer, bool keep_special = true,
                       TextPosition position = TextPosition::kStart);

  // The bytes that `id` makes certain; empty for an id without a token.
  std::string push(int32_t id);
  // The bytes of an unfinished character at the end; the detokenizer is then as new.
  std::string finish();

 private:
  void restart();
  std::string_view bytes_of(int32_t id);

  TokenizerPtr tokenizer_;
  bool keep_special_;
  TextPosition position_;
  bool first_ = false;           // no token has come yet
  size_t droppable_blanks_ = 0;  // of the blanks at the start, how many more are dropped
  std::string held_;             // at most 3 bytes: the start of a character
};

}  // namespace stoker
