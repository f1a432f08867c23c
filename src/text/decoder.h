#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace stoker {

class TokenizerPart;

// What decoding does, in a form in which each token has bytes of its own and only the start of the whole text
// is special; so text can be released token by token. Bytes of "<0x0A>" tokens stay bytes, so that what is no
// UTF-8 is lost at no step; to_valid_utf8 of the whole is what Python's errors='replace' gives (Hugging
// Face's ByteFallback writes one U+FFFD for each byte of a broken run instead). Immutable; asked once a token
// when the tokenizer is loaded.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // The bytes of a token that has this name in the file; `added`: it is an added token.
  virtual std::string bytes(std::string_view name, bool added) const = 0;
  // The bytes where the token is the first one that is decoded.
  virtual std::string first_bytes(std::string_view name, bool added) const { return bytes(name, added); }
  // How many blanks (' ') are dropped where the decoded text starts with them.
  virtual size_t dropped_leading_blanks() const { return 0; }
};

// Reads the member "decoder". Throws Error(kInput) naming the file and the place.
std::unique_ptr<const TokenDecoder> read_decoder(const TokenizerPart& part);

}  // namespace stoker
