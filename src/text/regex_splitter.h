#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/word_scanner.h"

namespace stoker {

// Finds the matches of any regular expression of a tokenizer.json, as the reference's engine (Oniguruma, Ruby
// syntax) finds them: by the hand-written scanner where there is one, else by PCRE2. Immutable.
//
// PCRE2's Unicode tables are those of its release (14.0 in Debian 12), the scanners' those of the reference.
// What Oniguruma reads otherwise than PCRE2 (class intersections, possessive intervals) is refused.
class RegexSplitter {
 public:
  // Throws Error(kInput) with a sentence without place where the pattern is broken or refused.
  explicit RegexSplitter(const std::string& regex);
  ~RegexSplitter();
  RegexSplitter(RegexSplitter&&) noexcept;

  // Appends the matches in `text`, counted from its start, that are not empty. Bytes that are no UTF-8 match
  // as U+FFFD does. Throws Error(kInput) where the pattern needs more steps on this text than any sane one
  // does.
  void find(std::string_view text, std::vector<TextRange>& matches) const;
  // The same by PCRE2 alone: the twin of the scanners.
  void find_by_engine(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  struct Engine;
  std::string regex_;
  std::optional<WordPattern> pattern_;
  std::unique_ptr<Engine> engine_;  // null where only the scanner is needed
};

}  // namespace stoker
