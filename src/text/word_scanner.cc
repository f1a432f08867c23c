#include "text/word_scanner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"

namespace stoker {
namespace {

using enum WordPattern;

constexpr std::pair<WordPattern, std::string_view> kPatterns[] = {
    {kGpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {kCl100k,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kQwen35,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kO200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kTekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kDeepSeek3,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kThreeDigits, R"(\p{N}{1,3})"},
    {kDigit, R"(\p{N})"},
    {kSpacesAtEnd, R"(\s+$)"},
};

// One text under one pattern.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // End of the match that starts at `at`; `at` itself where none does.
  size_t gpt2(size_t at) const;
  size_t cl100k(size_t at, size_t most_digits, unsigned letters) const;
  size_t capitals(size_t at, size_t most_digits, bool contractions) const;
  size_t deepseek3(size_t at) const;
  size_t digits(size_t at, size_t most) const;
  size_t spaces_at_end(size_t at) const;

 private:
  TextCharacter character(size_t at) const { return table_.at(text_, at); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool is_line_end(size_t at) const { return byte(at) == '\n' || byte(at) == '\r'; }

  // End of the run of characters with any of the classes.
  size_t run(size_t at, unsigned any_of) const {
    for (TextCharacter next = character(at); next.is(any_of); next = character(at)) at += next.size;
    return at;
  }
  // End of the run of characters with none of the classes.
  size_t run_without(size_t at, unsigned none_of) const {
    for (TextCharacter next = character(at); !next.at_end() && !next.is(none_of); next = character(at)) {
      at += next.size;
    }
    return at;
  }
  size_t line_ends(size_t at, bool slashes = false) const {
    while (is_line_end(at) || (slashes && byte(at) == '/')) ++at;
    return at;
  }

  size_t contraction(size_t at, bool any_case) const;
  size_t spaces(size_t at, bool lines) const;
  size_t capital_word(size_t at, bool lower_needed) const;
  size_t others(size_t at, unsigned none_of, bool slashes) const;

  std::string_view text_;
  const CharacterTable& table_ = CharacterTable::instance();
};

// 's|'t|'re|'ve|'m|'ll|'d; without regard to case U+017F is an s too.
size_t Scanner::contraction(size_t at, bool any_case) const {
  if (byte(at) != '\'') return at;
  auto folded = [&](size_t i) { return any_case ? static_cast<char>(byte(i) | 0x20) : byte(i); };
  char first = folded(at + 1);
  char second = folded(at + 2);
  if (any_case && text_.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  bool two =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return two ? at + 3 : at;
}

// \s*[\r\n]+ (with `lines`), then \s+(?!\S), then \s+.
size_t Scanner::spaces(size_t at, bool lines) const {
  size_t after_line = at;
  size_t last = at;  // start of the run's last character
  size_t end = at;
  for (TextCharacter next = character(end); next.is(kSpace); next = character(end)) {
    last = end;
    end += next.size;
    if (is_line_end(last)) after_line = end;
  }
  if (lines && after_line > at) return after_line;
  return end == text_.size() || last == at ? end : last;
}

size_t Scanner::gpt2(size_t at) const {
  if (size_t end = contraction(at, false); end > at) return end;
  size_t begin = at + (text_[at] == ' ' ? 1 : 0);
  TextCharacter first = character(begin);
  if (first.at_end() || first.is(kSpace)) return spaces(at, false);
  if (first.is(kLetter)) return run(begin, kLetter);
  if (first.is(kNumber)) return run(begin, kNumber);
  return run_without(begin, kSpace | kLetter | kNumber);
}

size_t Scanner::digits(size_t at, size_t most) const {
  for (size_t i = 0; i < most; ++i) {
    TextCharacter next = character(at);
    if (!next.is(kNumber)) break;
    at += next.size;
  }
  return at;
}

// ` ?[^...]+[\r\n]*`, at a character that is not a letter or number.
size_t Scanner::others(size_t at, unsigned none_of, bool slashes) const {
  size_t begin = at + (text_[at] == ' ' ? 1 : 0);
  size_t end = run_without(begin, none_of);
  return end == begin ? at : line_ends(end, slashes);
}

size_t Scanner::cl100k(size_t at, size_t most_digits, unsigned letters) const {
  if (size_t end = contraction(at, true); end > at) return end;
  TextCharacter first = character(at);
  if (first.is(kLetter)) return run(at, letters);
  if (first.is(kNumber)) return digits(at, most_digits);
  if (!is_line_end(at)) {
    size_t begin = at + first.size;
    if (size_t end = run(begin, letters); end > begin) return end;
    if (first.is(letters)) return begin;
  }
  if (size_t end = others(at, kSpace | kNumber | letters, false); end > at) return end;
  return spaces(at, true);
}

// [Lu Lt Lm Lo M]*[Ll Lm Lo M]+ (lower_needed) or [Lu Lt Lm Lo M]+[Ll Lm Lo M]*.
size_t Scanner::capital_word(size_t at, bool lower_needed) const {
  constexpr unsigned kUpperPart = kUpper | kOtherLetter | kMark;
  constexpr unsigned kLowerPart = kLower | kOtherLetter | kMark;
  size_t end = at;
  size_t after_lower = at;  // end of the last character of the upper part that may be of the lower part too
  for (TextCharacter next = character(end); next.is(kUpperPart); next = character(end)) {
    end += next.size;
    if (next.is(kLowerPart)) after_lower = end;
  }
  size_t lower_end = run(end, kLowerPart);
  if (!lower_needed) return end > at ? lower_end : at;
  return lower_end > end ? lower_end : after_lower;
}

size_t Scanner::capitals(size_t at, size_t most_digits, bool contractions) const {
  TextCharacter first = character(at);
  if (first.is(kNumber)) return digits(at, most_digits);
  bool prefix = !is_line_end(at) && !first.is(kLetter);
  for (bool lower_needed : {true, false}) {
    for (size_t begin : {at + (prefix ? first.size : 0), at}) {
      size_t end = capital_word(begin, lower_needed);
      if (end > begin) return contractions ? contraction(end, true) : end;
    }
  }
  if (size_t end = others(at, kSpace | kLetter | kNumber, true); end > at) return end;
  return spaces(at, true);
}

size_t Scanner::deepseek3(size_t at) const {
  auto is_ascii_letter = [&](size_t i) {
    char c = static_cast<char>(byte(i) | 0x20);
    return c >= 'a' && c <= 'z';
  };
  TextCharacter first = character(at);
  bool is_ascii_sign = first.size == 1 && text_[at] > 0 && first.is(kPunctuationOrSymbol);
  if (is_ascii_sign && is_ascii_letter(at + 1)) {
    size_t end = at + 2;
    while (is_ascii_letter(end)) ++end;
    return end;
  }
  if (!is_line_end(at) && !first.is(kLetter | kPunctuationOrSymbol)) {
    size_t begin = at + first.size;
    if (size_t end = run(begin, kLetter | kMark); end > begin) return end;
  }
  if (first.is(kLetter | kMark)) return run(at, kLetter | kMark);
  size_t begin = at + (text_[at] == ' ' ? 1 : 0);
  if (size_t end = run(begin, kPunctuationOrSymbol); end > begin) return line_ends(end);
  return spaces(at, true);
}

// `$` is the end of the text or of a line.
size_t Scanner::spaces_at_end(size_t at) const {
  size_t end = at;
  size_t last_line = at;
  for (TextCharacter next = character(end); next.is(kSpace); next = character(end)) {
    if (byte(end) == '\n') last_line = end;
    end += next.size;
  }
  return end == text_.size() ? end : last_line;
}

template <typename Match>
void scan(std::string_view text, std::vector<TextRange>& matches, Match match) {
  const CharacterTable& table = CharacterTable::instance();
  for (size_t at = 0; at < text.size();) {
    size_t end = match(at);
    if (end > at) {
      matches.push_back({at, end});
      at = end;
    } else {
      at += table.at(text, at).size;
    }
  }
}

// Where no match starts in a run of white space, none starts later in it.
void scan_spaces_at_end(std::string_view text, std::vector<TextRange>& matches) {
  const CharacterTable& table = CharacterTable::instance();
  Scanner scanner(text);
  for (size_t at = 0; at < text.size();) {
    size_t end = scanner.spaces_at_end(at);
    if (end > at) matches.push_back({at, end});
    at = end;
    while (table.at(text, at).is(kSpace)) at += table.at(text, at).size;
    if (at == end) at += table.at(text, at).size;
  }
}

}  // namespace

std::optional<WordPattern> known_pattern(std::string_view regex) {
  for (const auto& [pattern, text] : kPatterns) {
    if (text == regex) return pattern;
  }
  return std::nullopt;
}

std::string_view pattern_regex(WordPattern pattern) {
  for (const auto& [known, text] : kPatterns) {
    if (known == pattern) return text;
  }
  throw internal_error("a word pattern has no text");
}

void scan_words(WordPattern pattern, std::string_view text, std::vector<TextRange>& matches) {
  Scanner scanner(text);
  switch (pattern) {
    case kGpt2:
      return scan(text, matches, [&](size_t at) { return scanner.gpt2(at); });
    case kCl100k:
      return scan(text, matches, [&](size_t at) { return scanner.cl100k(at, 3, kLetter); });
    case kQwen2:
      return scan(text, matches, [&](size_t at) { return scanner.cl100k(at, 1, kLetter); });
    case kQwen35:
      return scan(text, matches, [&](size_t at) { return scanner.cl100k(at, 1, kLetter | kMark); });
    case kO200k:
      return scan(text, matches, [&](size_t at) { return scanner.capitals(at, 3, true); });
    case kTekken:
      return scan(text, matches, [&](size_t at) { return scanner.capitals(at, 1, false); });
    case kDeepSeek3:
      return scan(text, matches, [&](size_t at) { return scanner.deepseek3(at); });
    case kThreeDigits:
      return scan(text, matches, [&](size_t at) { return scanner.digits(at, 3); });
    case kDigit:
      return scan(text, matches, [&](size_t at) { return scanner.digits(at, 1); });
    case kSpacesAtEnd:
      return scan_spaces_at_end(text, matches);
  }
}

}  // namespace stoker
