#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace stoker {

class TokenizerPart;

// What decoding does, in a form in which each token has bytes of its own and only the start of the whole text
// is special; so text can be released token by token. Immutable; asked once a token when the tokenizer is
// loaded.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // The bytes of a token that has this name in the file; `added`: it is an added token.
  virtual std::string bytes(std::string_view name, bool added) const = 0;
  // How many blanks (' ') are dropped where the decoded text starts with them.
  virtual size_t dropped_leading_blanks() const { return 0; }
};

// Reads the member "decoder". Throws Error(kInput) naming the file and the place.
std::unique_ptr<const TokenDecoder> read_decoder(const TokenizerPart& part);

}  // namespace stoker
