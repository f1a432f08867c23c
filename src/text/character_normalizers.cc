#include "text/character_normalizers.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/unicode.h"

namespace stoker {
namespace {

// What a character becomes: itself when false is returned, else `out`, which is empty at first.
using CharacterMap = bool (*)(char32_t code_point, std::string& out);

class CharacterNormalizer : public Normalizer {
 public:
  explicit CharacterNormalizer(CharacterMap map) : map_(map) {}

  void normalize(AlignedText& text) const override {
    TextRewriter rewriter(text);
    std::string changed;
    for (size_t at = 0; at < text.text.size();) {
      Utf8Step step = utf8_step(std::string_view(text.text).substr(at));
      changed.clear();
      if (step.valid && map_(step.code_point, changed)) {
        rewriter.keep(at);
        rewriter.replace(at + step.size, changed);
      }
      at += step.size;
    }
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override {
    std::string changed;
    while (!text.empty()) {
      Utf8Step step = utf8_step(text);
      if (step.valid && map_(step.code_point, changed)) return false;
      text.remove_prefix(step.size);
    }
    return true;
  }

 private:
  CharacterMap map_;
};

bool lower_character(char32_t code_point, std::string& out) {
  if (code_point == 0x130) {  // the only one whose lower case is two characters (Unicode's SpecialCasing)
    out = "i\xCC\x87";
    return true;
  }
  auto lower =
      static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
  if (lower == code_point) return false;
  append_utf8(out, lower);
  return true;
}

bool drop_nonspacing_mark(char32_t code_point, std::string&) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point)) == UTF8PROC_CATEGORY_MN;
}

bool nmt_character(char32_t c, std::string& out) {
  bool control = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                 c == 0x8F || c == 0x9F;
  if (control) return true;
  bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
               (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
               c == 0xFFFD;
  if (blank) out = " ";
  return blank;
}

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  void normalize(AlignedText& text) const override {
    size_t begin = left_ ? blank_start(text.text) : 0;
    size_t end = right_ ? blank_end(text.text, begin) : text.text.size();
    TextRewriter rewriter(text);
    rewriter.replace(begin, "");
    rewriter.keep(end);
    rewriter.replace(text.text.size(), "");
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override {
    return (!left_ || blank_start(text) == 0) && (!right_ || blank_end(text, 0) == text.size());
  }

 private:
  static size_t blank_start(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
      Utf8Step step = utf8_step(text.substr(at));
      if (!step.valid || !is_space(step.code_point)) break;
      at += step.size;
    }
    return at;
  }

  // Where the blanks at the end of text[begin...] start.
  static size_t blank_end(std::string_view text, size_t begin) {
    size_t end = text.size();
    while (end > begin) {
      size_t start = end - 1;
      while (start > begin && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
      Utf8Step step = utf8_step(text.substr(start));
      if (!step.valid || start + step.size != end || !is_space(step.code_point)) break;
      end = start;
    }
    return end;
  }

  bool left_;
  bool right_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}

  void normalize(AlignedText& text) const override {
    if (text.text.empty()) return;
    TextRewriter rewriter(text);
    rewriter.replace(0, prefix_);
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override { return text.empty() || prefix_.empty(); }

 private:
  std::string prefix_;
};

class PatternNormalizer : public Normalizer {
 public:
  PatternNormalizer(RegexPattern pattern, std::string by) : pattern_(std::move(pattern)), by_(std::move(by)) {}

  void normalize(AlignedText& text) const override {
    TextRewriter rewriter(text);
    for (auto match = next(text.text, 0); match; match = next(text.text, match->end)) {
      rewriter.keep(match->begin);
      rewriter.replace(match->end, by_);
    }
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override { return !next(text, 0); }

 private:
  // The next match that is not empty.
  std::optional<RegexPattern::Match> next(std::string_view text, size_t from) const {
    while (from <= text.size()) {
      std::optional<RegexPattern::Match> match = pattern_.find(text, from);
      if (!match || match->end > match->begin) return match;
      from = match->end;
      if (from == text.size()) break;
      from += utf8_step(text.substr(from)).size;
    }
    return std::nullopt;
  }

  RegexPattern pattern_;
  std::string by_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_lowercase_normalizer() {
  return std::make_unique<CharacterNormalizer>(lower_character);
}

std::unique_ptr<const Normalizer> make_strip_accents_normalizer() {
  return std::make_unique<CharacterNormalizer>(drop_nonspacing_mark);
}

std::unique_ptr<const Normalizer> make_nmt_normalizer() {
  return std::make_unique<CharacterNormalizer>(nmt_character);
}

std::unique_ptr<const Normalizer> make_strip_normalizer(bool left, bool right) {
  return std::make_unique<StripNormalizer>(left, right);
}

std::unique_ptr<const Normalizer> make_prepend_normalizer(std::string prefix) {
  return std::make_unique<PrependNormalizer>(std::move(prefix));
}

std::unique_ptr<const Normalizer> make_pattern_normalizer(RegexPattern pattern, std::string by) {
  return std::make_unique<PatternNormalizer>(std::move(pattern), std::move(by));
}

}  // namespace stoker
