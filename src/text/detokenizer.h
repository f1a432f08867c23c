#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace stoker {

// Turns tokens into text as they come. Bytes are released as soon as they are certain: a character is held
// back until it is whole, bytes that can become none are released at once. What was released is never taken
// back, the joined releases are exactly Tokenizer::decode of all ids, and a token costs the same wherever it
// stands.
//
//   Detokenizer detokenizer(tokenizer);
//   for (int32_t id : ids) text += detokenizer.push(id);
//   text += detokenizer.finish();
//
// to_valid_utf8 of each release joins to to_valid_utf8 of the whole.
class Detokenizer {
 public:
  explicit Detokenizer(TokenizerPtr tokenizer, bool keep_special = true);

  // The bytes that `id` makes certain; empty for an id without a token.
  std::string push(int32_t id);
  // The bytes of an unfinished character at the end; the detokenizer is then as new.
  std::string finish();

 private:
  TokenizerPtr tokenizer_;
  bool keep_special_;
  std::string held_;  // at most 3 bytes: the start of a character
};

}  // namespace stoker
