#include "text/regex_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <new>

#include "base/error.h"

namespace stoker {

struct RegexPattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
};

namespace {

// One thread's room for the place of a match.
struct MatchData {
  MatchData() : data(pcre2_match_data_create(1, nullptr)) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~MatchData() { pcre2_match_data_free(data); }
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;

  pcre2_match_data* data;
};

std::string pcre_message(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

RegexPattern::RegexPattern(std::unique_ptr<const Code> code) : code_(std::move(code)) {}
RegexPattern::~RegexPattern() = default;
RegexPattern::RegexPattern(RegexPattern&&) noexcept = default;
RegexPattern& RegexPattern::operator=(RegexPattern&&) noexcept = default;

std::optional<RegexPattern> RegexPattern::compile(std::string_view pattern, std::string& problem) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    problem = fmt::format("{} at byte {}", pcre_message(error), offset);
    return std::nullopt;
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot, matching interprets
  return RegexPattern(std::make_unique<const Code>(code));
}

std::optional<RegexPattern::Match> RegexPattern::find(std::string_view text, size_t from) const {
  thread_local MatchData place;
  int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, 0,
                          place.data, nullptr);
  if (count == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (count < 0) {
    throw input_error(fmt::format("A regular expression of the tokenizer could not be matched: {}; use the "
                                  "file of the model's makers.",
                                  pcre_message(count)));
  }
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(place.data);
  return Match{found[0], found[1]};
}

}  // namespace stoker
