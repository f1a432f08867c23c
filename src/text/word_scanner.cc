#include "text/word_scanner.h"

#include "base/utf8.h"
#include "text/unicode.h"

namespace stoker {
namespace {

enum class CharacterClass { kEnd, kLetter, kNumber, kSpace, kOther };

struct ClassifiedCharacter {
  CharacterClass character_class = CharacterClass::kEnd;
  size_t size = 0;
};

ClassifiedCharacter classify(std::string_view text) {
  if (text.empty()) return {};
  Utf8Step step = utf8_step(text);
  if (!step.valid) return {CharacterClass::kOther, step.size};
  if (is_letter(step.code_point)) return {CharacterClass::kLetter, step.size};
  if (is_number(step.code_point)) return {CharacterClass::kNumber, step.size};
  if (is_space(step.code_point)) return {CharacterClass::kSpace, step.size};
  return {CharacterClass::kOther, step.size};
}

size_t contraction_length(std::string_view text) {
  for (std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

// A run of white space: `\s+(?!\S)` leaves the last character to what follows, unless it is the only one.
size_t space_length(std::string_view text) {
  size_t length = 0;
  size_t last = 0;
  for (;;) {
    ClassifiedCharacter next = classify(text.substr(length));
    if (next.character_class != CharacterClass::kSpace) {
      bool at_end = next.character_class == CharacterClass::kEnd;
      return at_end || length == last ? length : length - last;
    }
    last = next.size;
    length += next.size;
  }
}

}  // namespace

size_t gpt2_word_length(std::string_view text) {
  if (size_t contraction = contraction_length(text); contraction > 0) return contraction;
  size_t blank = text[0] == ' ' ? 1 : 0;
  ClassifiedCharacter first = classify(text.substr(blank));
  if (first.character_class == CharacterClass::kEnd || first.character_class == CharacterClass::kSpace) {
    return space_length(text);
  }
  size_t length = blank;
  for (ClassifiedCharacter next = first; next.character_class == first.character_class;
       next = classify(text.substr(length))) {
    length += next.size;
  }
  return length;
}

}  // namespace stoker
