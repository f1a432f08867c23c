#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::jinja {

// Python's classes of characters and what its strings do with them.

bool is_python_space(char32_t c);
// Whether repr() shows the character as it is.
bool is_printable(char32_t c);
// Unicode's simple case mappings, and "SS" for a sharp s where Python writes it.
std::string to_upper(char32_t c);
std::string to_lower(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_alphabetic(char32_t c);
bool is_numeric(char32_t c);
bool is_digit(char32_t c);  // a decimal digit of any script

// Code points in `bytes`; a byte that is no UTF-8 counts as part of one.
size_t count_characters(std::string_view bytes);
// Byte positions at which characters begin, and the size as the last.
std::vector<size_t> character_starts(std::string_view bytes);

// [begin, end) without blanks at the start or the end: Python's strip() family.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};
// `characters` null: blanks; else the set of characters to strip.
ByteRange stripped(std::string_view bytes, const std::string_view* characters, bool left, bool right);

}  // namespace stoker::jinja
