#include "text/schema/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr size_t kLongestPattern = 4096;
constexpr uint32_t kMostMatchSteps = 1'000'000;
constexpr uint32_t kMostMatchKibibytes = 16 * 1024;

}  // namespace

struct SchemaPattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

SchemaPattern::SchemaPattern(const std::string& pattern) : code_(std::make_unique<Code>()) {
  if (pattern.size() > kLongestPattern) {
    throw input_error(fmt::format("has {} bytes; at most {} are read", pattern.size(), kLongestPattern));
  }
  if (pattern.starts_with("(*")) throw input_error("starts with (*, which is no ECMAScript syntax");
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
  int error = 0;
  size_t place = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS |
                                  PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C,
                              &error, &place, context);
  pcre2_compile_context_free(context);
  if (code_->code == nullptr) {
    char message[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof(message));
    throw input_error(fmt::format("cannot be read at character {}: {}", place + 1, message));
  }
  code_->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(code_->limits, kMostMatchSteps);
  pcre2_set_heap_limit(code_->limits, kMostMatchKibibytes);
}

SchemaPattern::~SchemaPattern() = default;
SchemaPattern::SchemaPattern(SchemaPattern&&) noexcept = default;

SchemaPattern::Found SchemaPattern::find(std::string_view text) const {
  std::string subject = to_valid_utf8(text);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), 0, 0,
                           data, code_->limits);
  pcre2_match_data_free(data);
  if (result >= 0) return Found::kYes;
  return result == PCRE2_ERROR_NOMATCH ? Found::kNo : Found::kTooMuchWork;
}

}  // namespace stoker
