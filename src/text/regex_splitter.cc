#include "text/regex_splitter.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr uint32_t kMatchLimit = 50'000'000;  // steps of one match
constexpr uint32_t kHeapLimit = 256 << 10;    // KiB
constexpr size_t kJitStack = size_t{8} << 20;

struct Deleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

std::string engine_message(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

void refuse_other_dialects(const std::string& regex) {
  if (regex.find("&&") != std::string::npos) {
    throw input_error("has a class intersection ('&&'), which Stoker does not support");
  }
  for (size_t end = regex.find("}+"); end != std::string::npos; end = regex.find("}+", end + 1)) {
    // "{2,3}+", not "\\p{L}+".
    size_t digits = regex.find_last_not_of("0123456789,", end - 1);
    if (digits != std::string::npos && digits + 1 < end && regex[digits] == '{') {
      throw input_error("repeats an interval ('}+'), which engines read differently");
    }
  }
}

// Text in which each invalid part is U+FFFD, and where its bytes stand in the original.
struct ValidText {
  std::string text;
  std::vector<size_t> origins;  // of each byte and of the end

  explicit ValidText(std::string_view bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      Utf8Step step = utf8_step(bytes.substr(at));
      std::string_view part = step.valid ? bytes.substr(at, step.size) : std::string_view("\xEF\xBF\xBD");
      text += part;
      origins.insert(origins.end(), part.size(), at);
      at += step.size;
    }
    origins.push_back(at);
  }
};

bool is_valid(std::string_view bytes) {
  while (!bytes.empty()) {
    if (static_cast<uint8_t>(bytes[0]) < 0x80) {
      bytes.remove_prefix(1);
      continue;
    }
    Utf8Step step = utf8_step(bytes);
    if (!step.valid) return false;
    bytes.remove_prefix(step.size);
  }
  return true;
}

}  // namespace

struct RegexSplitter::Engine {
  Owned<pcre2_code> code;

  explicit Engine(const std::string& regex) {
    Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE offset = 0;
    // In Ruby's syntax `^` and `$` stand for lines.
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context.get()));
    if (code == nullptr) {
      throw input_error(
          fmt::format("is no regular expression: {} at byte {}", engine_message(error), offset));
    }
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without it matching is slower and the same
  }

  // `text` is valid UTF-8.
  void find(std::string_view text, const std::string& regex, std::vector<TextRange>& matches) const {
    Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimit);
    Owned<pcre2_jit_stack> stack(pcre2_jit_stack_create(32 << 10, kJitStack, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    Owned<pcre2_match_data> data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    uint32_t options = PCRE2_NO_UTF_CHECK;
    for (size_t at = 0; at <= text.size();) {
      int found = pcre2_match(code.get(), subject, text.size(), at, options, data.get(), context.get());
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(code.get(), subject, text.size(), at, options | PCRE2_NO_JIT, data.get(),
                            context.get());
      }
      if (found == PCRE2_ERROR_NOMATCH) return;
      if (found < 0) {
        throw input_error(
            fmt::format("The tokenizer's pattern '{}' cannot be matched against a text of {} bytes: {}; "
                        "cut the text.",
                        regex.substr(0, 80), text.size(), engine_message(found)));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
      if (range[1] > range[0]) {
        matches.push_back({range[0], range[1]});
        at = range[1];
      } else {
        at = range[1] < text.size() ? range[1] + utf8_step(text.substr(range[1])).size : text.size() + 1;
      }
    }
  }
};

RegexSplitter::RegexSplitter(const std::string& regex) : regex_(regex), pattern_(known_pattern(regex)) {
  if (pattern_) return;
  refuse_other_dialects(regex);
  engine_ = std::make_unique<Engine>(regex);
}
RegexSplitter::~RegexSplitter() = default;
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;

void RegexSplitter::find(std::string_view text, std::vector<TextRange>& matches) const {
  if (pattern_) return scan_words(*pattern_, text, matches);
  find_by_engine(text, matches);
}

void RegexSplitter::find_by_engine(std::string_view text, std::vector<TextRange>& matches) const {
  std::unique_ptr<Engine> own = engine_ == nullptr ? std::make_unique<Engine>(regex_) : nullptr;
  const Engine& engine = own ? *own : *engine_;
  if (is_valid(text)) return engine.find(text, regex_, matches);
  ValidText valid(text);
  size_t before = matches.size();
  engine.find(valid.text, regex_, matches);
  for (size_t i = before; i < matches.size(); ++i) {
    matches[i] = {valid.origins[matches[i].begin], valid.origins[matches[i].end]};
  }
}

}  // namespace stoker
