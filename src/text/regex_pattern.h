#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// A regular expression over UTF-8 text, with Unicode classes (\p{L}, \s, \w as Unicode has them), as tokenizer
// files write them. Compiled once, by PCRE2 with its JIT. Immutable; any number of threads may use one. Bytes
// that are no UTF-8 match nothing and part the text.
//
//   std::optional<RegexPattern> pattern = RegexPattern::compile(" {2,}", problem);
//   std::optional<RegexPattern::Match> match = pattern->find(text, 0);
class RegexPattern {
 public:
  struct Match {
    size_t begin = 0;  // [begin, end) of the text; may be empty
    size_t end = 0;
  };

  // Empty when `pattern` is no regular expression; `problem` then says what is wrong and where.
  static std::optional<RegexPattern> compile(std::string_view pattern, std::string& problem);
  ~RegexPattern();
  RegexPattern(RegexPattern&&) noexcept;
  RegexPattern& operator=(RegexPattern&&) noexcept;

  // The leftmost match that starts at `from` or later; what stands before is seen by look-behind. A match that
  // takes more than PCRE2's limits of steps or memory throws Error(kInput).
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Code;
  explicit RegexPattern(std::unique_ptr<const Code> code);

  std::unique_ptr<const Code> code_;
};

}  // namespace stoker
