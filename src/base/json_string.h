#pragma once

#include <string>
#include <string_view>

namespace stoker {

// What becomes of bytes that are no UTF-8.
enum class InvalidUtf8 {
  kReplace,  // each maximal invalid part becomes U+FFFD: strict JSON
  kKeep,     // the bytes stay as they are, for text whose bytes become tokens
};

// Appends `text` as a JSON string with its quotes. Escapes what RFC 8259 demands and nothing else, in the
// short form where there is one, as Python's json.dumps(text, ensure_ascii=False) does.
void append_json_string(std::string& out, std::string_view text, InvalidUtf8 invalid = InvalidUtf8::kReplace);

}  // namespace stoker
