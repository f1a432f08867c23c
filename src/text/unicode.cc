#include "text/unicode.h"

#include <algorithm>

namespace stoker {

const CharacterTable& CharacterTable::instance() {
  static const CharacterTable table;
  return table;
}

CharacterTable::CharacterTable() {
  std::span<const uint16_t> sets = unicode_sets();
  std::span<const uint32_t> runs = unicode_runs();
  size_t run = 0;
  for (uint32_t page = 0; page < index_.size(); ++page) {
    std::array<uint16_t, 256> classes{};
    for (uint32_t i = 0; i < 256; ++i) {
      while (run + 1 < runs.size() && runs[run + 1] >> 8 <= page * 256 + i) ++run;
      classes[i] = sets[runs[run] & 0xFF];
    }
    auto known = std::find(pages_.begin(), pages_.end(), classes);
    index_[page] = static_cast<uint16_t>(known - pages_.begin());
    if (known == pages_.end()) pages_.push_back(classes);
  }
}

}  // namespace stoker
