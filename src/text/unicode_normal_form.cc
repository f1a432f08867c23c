#include "text/unicode_normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace stoker {
namespace {

// Marks and characters with a decomposition that came after Unicode 9, up to the version of utf8proc (15);
// with them others of that time between them. [first, last].
constexpr std::pair<char32_t, char32_t> kAfterUnicode9[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD00, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},
    {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0xAB69, 0xAB69},   {0x10781, 0x107BA},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
    {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x1182C, 0x1183A}, {0x11930, 0x11943},
    {0x119D1, 0x119E4}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A5B}, {0x11A8A, 0x11A99}, {0x11D31, 0x11D47},
    {0x11D8A, 0x11D97}, {0x11EF3, 0x11F03}, {0x11F34, 0x11F42}, {0x13440, 0x13455}, {0x16F4F, 0x16F4F},
    {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E030, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1FBF0, 0x1FBF9}};

// Above these nothing but what is handled like any other starter.
constexpr char32_t kTableEnd = 0x2FA20;

using CodePoints = std::vector<utf8proc_int32_t>;

int combining_class(char32_t code_point) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

// May this be the second of a pair that composes?
bool composes_backward(char32_t code_point) {
  if ((code_point >= 0x1161 && code_point <= 0x1175) || (code_point >= 0x11A8 && code_point <= 0x11C2)) {
    return true;  // Hangul vowels and finals
  }
  // The index of pairs: below 0x8000 of first ones, above of second ones (utf8proc 2.8, utf8proc.c).
  utf8proc_uint16_t index = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->comb_index;
  return index >= 0x8000 && index != UINT16_MAX;
}

void append_decomposed(CodePoints& out, char32_t code_point, bool compatible) {
  std::array<utf8proc_int32_t, 32> buffer;  // the longest, of U+FDFA, has 18
  int boundary = 0;
  auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), buffer.data(),
                                                   buffer.size(), options, &boundary);
  if (count < 0 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    throw internal_error("utf8proc could not decompose a character.");
  }
  out.insert(out.end(), buffer.begin(), buffer.begin() + count);
}

// Sorts each run of marks by combining class, those of one class in their order.
void sort_marks(CodePoints& text) {
  for (auto begin = text.begin(); begin != text.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    auto end = std::find_if(begin, text.end(), [](auto c) { return combining_class(c) == 0; });
    // Class and place in one number, so that equal classes keep their order.
    std::vector<std::pair<uint64_t, utf8proc_int32_t>> marks;
    for (auto at = begin; at != end; ++at) {
      uint64_t key = (static_cast<uint64_t>(combining_class(*at)) << 32) | static_cast<uint64_t>(at - begin);
      marks.emplace_back(key, *at);
    }
    std::sort(marks.begin(), marks.end());
    for (size_t i = 0; i < marks.size(); ++i) *(begin + static_cast<std::ptrdiff_t>(i)) = marks[i].second;
    begin = end;
  }
}

// One form, with the classes of characters that let most of a text pass untouched.
class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form)
      : compatible_(form == NormalForm::kNfkc || form == NormalForm::kNfkd),
        composes_(form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    for (char32_t c = 0; c < kTableEnd; ++c) classify(c);
  }

  void normalize(AlignedText& text) const override {
    TextRewriter rewriter(text);
    std::string_view source = text.text;
    CodePoints segment;
    std::string changed;
    size_t start = 0;  // where the segment of the character at `at` starts
    for (size_t at = 0; at < source.size();) {
      Utf8Step step = utf8_step(source.substr(at));
      if (!step.valid || settled(step.code_point)) {
        start = step.valid ? at : at + step.size;
        at += step.size;
        continue;
      }
      if (starts_segment(step.code_point)) start = at;
      size_t end = read_segment(source, start, segment);
      changed.clear();
      rewrite(segment, changed);
      if (changed != source.substr(start, end - start)) {
        rewriter.keep(start);
        replace_segment(rewriter, source, start, end, changed);
      }
      at = start = end;
    }
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override {
    for (size_t at = 0; at < text.size();) {
      uint64_t eight;
      if (at + sizeof(eight) <= text.size()) {
        std::memcpy(&eight, text.data() + at, sizeof(eight));
        if ((eight & 0x8080808080808080u) == 0) {
          at += sizeof(eight);
          continue;
        }
      }
      Utf8Step step = utf8_step(text.substr(at));
      if (step.valid && !settled(step.code_point)) return false;
      at += step.size;
    }
    return true;
  }

 private:
  // Settled: stays as it is and starts a segment, whatever stands around it, but for what may follow and
  // change with it.
  bool settled(char32_t code_point) const { return code_point >= kTableEnd || settled_[code_point]; }
  // Nothing in front of the character can change with it.
  bool starts_segment(char32_t code_point) const {
    return code_point >= kTableEnd || starts_segment_[code_point];
  }

  void classify(char32_t code_point) {
    if ((code_point >= 0xD800 && code_point < 0xE000) || came_after_unicode_9(code_point)) {
      settled_[code_point] = starts_segment_[code_point] = true;
      return;
    }
    bool hangul = code_point >= 0xAC00 && code_point <= 0xD7A3;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
    bool plain = !hangul && property->decomp_seqindex == UINT16_MAX && property->combining_class == 0;
    if (plain) {
      settled_[code_point] = starts_segment_[code_point] = !composes_ || !composes_backward(code_point);
      return;
    }
    CodePoints decomposed;
    append_decomposed(decomposed, code_point, compatible_);
    bool starts = combining_class(decomposed[0]) == 0 && !(composes_ && composes_backward(decomposed[0]));
    starts_segment_[code_point] = starts;
    CodePoints self = {static_cast<utf8proc_int32_t>(code_point)};
    std::string rewritten;
    std::string same;
    append_utf8(same, code_point);
    rewrite(self, rewritten);
    settled_[code_point] = starts && combining_class(code_point) == 0 && rewritten == same;
  }

  // Reads characters from `start` to where the next segment begins.
  size_t read_segment(std::string_view source, size_t start, CodePoints& segment) const {
    segment.clear();
    size_t end = start;
    while (end < source.size()) {
      Utf8Step step = utf8_step(source.substr(end));
      if (!step.valid || (end > start && starts_segment(step.code_point))) break;
      segment.push_back(static_cast<utf8proc_int32_t>(step.code_point));
      end += step.size;
    }
    return end;
  }

  // Characters that change places or become others one by one stand each for the one in its place, as in the
  // reference; those that compose or come apart stand for the whole segment.
  static void replace_segment(TextRewriter& rewriter, std::string_view source, size_t start, size_t end,
                              std::string_view by) {
    if (count_characters(by) != count_characters(source.substr(start, end - start)))
      return rewriter.replace(end, by);
    while (start < end) {
      start += utf8_step(source.substr(start)).size;
      size_t size = utf8_step(by).size;
      rewriter.replace(start, by.substr(0, size));
      by.remove_prefix(size);
    }
  }

  static size_t count_characters(std::string_view text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  }

  // Appends the form of `segment`, which may be changed.
  void rewrite(CodePoints& segment, std::string& out) const {
    CodePoints decomposed;
    decomposed.reserve(segment.size());
    for (utf8proc_int32_t c : segment) append_decomposed(decomposed, static_cast<char32_t>(c), compatible_);
    sort_marks(decomposed);
    if (composes_) {
      auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
      utf8proc_ssize_t count = utf8proc_normalize_utf32(
          decomposed.data(), static_cast<utf8proc_ssize_t>(decomposed.size()), options);
      if (count < 0) throw internal_error("utf8proc could not compose characters.");
      decomposed.resize(static_cast<size_t>(count));
    }
    for (utf8proc_int32_t c : decomposed) append_utf8(out, static_cast<char32_t>(c));
  }

  bool compatible_;
  bool composes_;
  std::bitset<kTableEnd> settled_;
  std::bitset<kTableEnd> starts_segment_;
};

}  // namespace

bool came_after_unicode_9(char32_t code_point) {
  auto after = std::upper_bound(std::begin(kAfterUnicode9), std::end(kAfterUnicode9), code_point,
                                [](char32_t value, const auto& range) { return value < range.first; });
  return after != std::begin(kAfterUnicode9) && code_point <= std::prev(after)->second;
}

std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

std::string to_normal_form(std::string_view text, NormalForm form) {
  static const std::array<std::unique_ptr<const Normalizer>, 4> normalizers = {
      make_unicode_normalizer(NormalForm::kNfc), make_unicode_normalizer(NormalForm::kNfd),
      make_unicode_normalizer(NormalForm::kNfkc), make_unicode_normalizer(NormalForm::kNfkd)};
  AlignedText aligned;
  aligned.assign(text);
  normalizers[static_cast<size_t>(form)]->normalize(aligned);
  return aligned.text;
}

}  // namespace stoker
