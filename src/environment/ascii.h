#pragma once

namespace stoker {

// Classes of ASCII characters, whatever the locale is; bytes of other characters belong to none.
inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_ascii_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace stoker
