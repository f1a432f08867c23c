#include "text/precompiled_normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/utf8.h"

namespace stoker {
namespace {

// An entry that a text starts with.
struct CharsmapEntry {
  size_t size = 0;  // bytes of the text
  std::string_view replacement;
};

// The trie (Darts-clone by Susumu Yata: darts.h, DoubleArrayUnit) and the replacements.
class Charsmap {
 public:
  // False when the parts do not fit; `problem` says how.
  bool read(std::string_view bytes, std::string& problem) {
    uint32_t trie_size = 0;
    if (bytes.size() >= sizeof(trie_size)) std::memcpy(&trie_size, bytes.data(), sizeof(trie_size));
    if (bytes.size() < sizeof(trie_size) || trie_size % 4 != 0 || trie_size == 0 ||
        trie_size > bytes.size() - sizeof(trie_size)) {
      problem = fmt::format("claims a trie of {} bytes in a map of {}", trie_size, bytes.size());
      return false;
    }
    units_.resize(trie_size / 4);
    std::memcpy(units_.data(), bytes.data() + sizeof(trie_size), trie_size);
    replacements_ = bytes.substr(sizeof(trie_size) + trie_size);
    if (!replacements_.empty() && replacements_.back() != '\0') {
      problem = "does not end its last replacement";
      return false;
    }
    return true;
  }

  // The shortest or the longest entry that `text` starts with.
  std::optional<CharsmapEntry> find(std::string_view text, bool longest) const {
    std::optional<CharsmapEntry> found;
    size_t node = offset_of(units_[0]);
    for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
      node ^= static_cast<uint8_t>(text[i]);
      if (node >= units_.size()) break;
      uint32_t unit = units_[node];
      if ((unit & 0x800000FFu) != static_cast<uint8_t>(text[i])) break;
      node ^= offset_of(unit);
      if (node >= units_.size()) break;
      if (((unit >> 8) & 1) == 0) continue;
      size_t value = units_[node] & 0x7FFFFFFFu;
      if (value >= replacements_.size()) break;
      found = CharsmapEntry{i + 1, replacements_.substr(value, replacements_.find('\0', value) - value)};
      if (!longest) break;
    }
    return found;
  }

 private:
  static size_t offset_of(uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

  std::vector<uint32_t> units_;
  std::string_view replacements_;
};

// Bytes of the grapheme cluster at the start of `text`, which starts with a whole character; invalid bytes
// end one.
size_t grapheme_size(std::string_view text) {
  Utf8Step step = utf8_step(text);
  size_t size = step.size;
  utf8proc_int32_t state = 0;
  auto previous = static_cast<utf8proc_int32_t>(step.code_point);
  while (size < text.size()) {
    step = utf8_step(text.substr(size));
    auto next = static_cast<utf8proc_int32_t>(step.code_point);
    if (!step.valid || utf8proc_grapheme_break_stateful(previous, next, &state)) break;
    size += step.size;
    previous = next;
  }
  return size;
}

class PrecompiledNormalizer : public Normalizer {
 public:
  PrecompiledNormalizer(std::string bytes, CharsmapMatch match) : bytes_(std::move(bytes)), match_(match) {}

  bool read(std::string& problem) { return map_.read(bytes_, problem); }

  void normalize(AlignedText& text) const override {
    TextRewriter rewriter(text);
    for_each_entry(text.text, [&](size_t at, size_t size, std::string_view replacement) {
      rewriter.keep(at);
      rewriter.replace(at + size, replacement);
      return true;
    });
    rewriter.finish();
  }

  bool keeps(std::string_view text) const override {
    bool kept = true;
    for_each_entry(text, [&](size_t, size_t, std::string_view) { return kept = false; });
    return kept;
  }

 private:
  // Calls visit(at, size, replacement) for each stretch that is replaced, until it returns false.
  template <typename Visit>
  void for_each_entry(std::string_view text, Visit visit) const {
    for (size_t at = 0; at < text.size();) {
      Utf8Step step = utf8_step(text.substr(at));
      if (!step.valid) {
        at += step.size;
        continue;
      }
      if (match_ == CharsmapMatch::kLongest) {
        std::optional<CharsmapEntry> entry = map_.find(text.substr(at), true);
        if (entry && !visit(at, entry->size, entry->replacement)) return;
        at += entry ? entry->size : step.size;
        continue;
      }
      size_t cluster = grapheme_size(text.substr(at));
      std::optional<CharsmapEntry> entry;
      if (cluster < 6) entry = map_.find(text.substr(at, cluster), false);
      if (entry) {
        if (!visit(at, cluster, entry->replacement)) return;
        at += cluster;
        continue;
      }
      for (size_t end = at + cluster; at < end; at += step.size) {
        step = utf8_step(text.substr(at));
        entry = map_.find(text.substr(at, step.size), false);
        if (entry && !visit(at, step.size, entry->replacement)) return;
      }
    }
  }

  std::string bytes_;  // what `map_` views
  CharsmapMatch match_;
  Charsmap map_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_precompiled_normalizer(std::string_view charsmap, CharsmapMatch match,
                                                              std::string& problem) {
  auto normalizer = std::make_unique<PrecompiledNormalizer>(std::string(charsmap), match);
  if (!normalizer->read(problem)) return nullptr;
  return normalizer;
}

}  // namespace stoker
