#include "text/character_normalizers.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/unicode.h"
#include "text/unicode_normal_form.h"

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

// Lower case of characters that came after utf8proc's Unicode 15.
struct LaterCase {
  char32_t first;
  char32_t last;
  char32_t lower;  // of `first`; those of the others follow
};
constexpr LaterCase kLaterCases[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

char32_t lower_of(char32_t code_point) {
  for (const LaterCase& later : kLaterCases) {
    if (code_point >= later.first && code_point <= later.last)
      return later.lower + (code_point - later.first);
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

bool lower_character(char32_t code_point, std::string& out) {
  if (code_point == 0x130) {  // the only one whose lower case is two characters (Unicode's SpecialCasing)
    out = "i\xCC\x87";
    return true;
  }
  char32_t lower = lower_of(code_point);
  if (lower == code_point) return false;
  append_utf8(out, lower);
  return true;
}

bool drop_mark(char32_t code_point, std::string&) {
  if (code_point == 0x1CF2 || code_point == 0x1CF3) return true;  // marks until Unicode 12
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  bool mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
              category == UTF8PROC_CATEGORY_ME;
  return mark && !came_after_unicode_9(code_point);
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
  PatternNormalizer(RegexSplitter pattern, std::string by)
      : pattern_(std::move(pattern)), by_(std::move(by)) {}

  void normalize(AlignedText& text) const override {
    std::vector<TextRange> matches;
    pattern_.find(text.text, matches);
    TextRewriter rewriter(text);
    for (const TextRange& match : matches) {
      rewriter.keep(match.begin);
      rewriter.replace(match.end, by_);
    }
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override { return text.empty(); }

 private:
  RegexSplitter pattern_;
  std::string by_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_lowercase_normalizer() {
  return std::make_unique<CharacterNormalizer>(lower_character);
}

std::unique_ptr<const Normalizer> make_strip_accents_normalizer() {
  return std::make_unique<CharacterNormalizer>(drop_mark);
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

std::unique_ptr<const Normalizer> make_pattern_normalizer(RegexSplitter pattern, std::string by) {
  return std::make_unique<PatternNormalizer>(std::move(pattern), std::move(by));
}

}  // namespace stoker
