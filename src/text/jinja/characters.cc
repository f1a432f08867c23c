#include "text/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"

namespace stoker::jinja {
namespace {

size_t next_character(std::string_view bytes, size_t at) { return at + utf8_step(bytes.substr(at)).size; }

// The start of the character that ends at `end`.
size_t last_character(std::string_view bytes, size_t end) {
  for (size_t size = 1; size <= std::min<size_t>(4, end); ++size) {
    Utf8Step step = utf8_step(bytes.substr(end - size, size));
    if (step.valid && step.size == size) return end - size;
  }
  return end - 1;
}

}  // namespace

bool is_python_space(char32_t c) { return is_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string to_upper(char32_t c) {
  if (c == U'ß') return "SS";
  std::string text;
  append_utf8(text, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  return text;
}

std::string to_lower(char32_t c) {
  std::string text;
  append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  return text;
}

bool is_upper(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LL;
}
bool is_alphabetic(char32_t c) { return (CharacterTable::instance().classes(c) & kLetter) != 0; }
bool is_numeric(char32_t c) { return (CharacterTable::instance().classes(c) & kNumber) != 0; }
bool is_digit(char32_t c) { return is_numeric(c) && is_word(c) && !is_alphabetic(c); }

size_t count_characters(std::string_view bytes) {
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); ++count) {
    at = static_cast<signed char>(bytes[at]) >= 0 ? at + 1 : next_character(bytes, at);
  }
  return count;
}

std::vector<size_t> character_starts(std::string_view bytes) {
  std::vector<size_t> starts;
  starts.reserve(bytes.size() + 1);
  for (size_t at = 0; at < bytes.size(); at = next_character(bytes, at)) starts.push_back(at);
  starts.push_back(bytes.size());
  return starts;
}

ByteRange stripped(std::string_view bytes, const std::string_view* characters, bool left, bool right) {
  auto strips = [&](size_t begin, size_t end) {
    std::string_view character = bytes.substr(begin, end - begin);
    if (characters == nullptr) {
      Utf8Step step = utf8_step(character);
      return step.valid && is_python_space(step.code_point);
    }
    for (size_t at = 0; at < characters->size(); at = next_character(*characters, at)) {
      if (characters->substr(at, next_character(*characters, at) - at) == character) return true;
    }
    return false;
  };
  ByteRange range{0, bytes.size()};
  while (left && range.begin < range.end) {
    size_t next = next_character(bytes, range.begin);
    if (!strips(range.begin, next)) break;
    range.begin = next;
  }
  while (right && range.begin < range.end) {
    size_t start = last_character(bytes, range.end);
    if (!strips(start, range.end)) break;
    range.end = start;
  }
  return range;
}

}  // namespace stoker::jinja
