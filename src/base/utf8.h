#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

// One step through bytes that may be no UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF).
struct Utf8Step {
  char32_t code_point = 0;  // when valid
  uint8_t size = 0;  // bytes of the character, or of the maximal invalid part (Unicode 15, section 3.9)
  bool valid = false;
  bool incomplete = false;  // invalid only because the bytes end: more could make it a character
};

// The step at the start of `bytes`, which must not be empty.
Utf8Step utf8_step(std::string_view bytes);

// Replaces each maximal invalid part by U+FFFD, as Python's errors='replace' does. Valid text is unchanged.
std::string to_valid_utf8(std::string_view bytes);

void append_utf8(std::string& out, char32_t code_point);

}  // namespace stoker
