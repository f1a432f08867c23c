#include "text/bpe_tables.h"

#include <bit>

#include "base/utf8.h"

namespace stoker {
namespace {

// Of a table that is at most two thirds full with `most` entries.
int table_shift(size_t most) { return 64 - std::max(1, static_cast<int>(std::bit_width(most + most / 2))); }

uint64_t load_u64(const char* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t load_u32(const char* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t load_byte(const char* bytes) { return static_cast<uint8_t>(*bytes); }

// The first at most eight bytes, zeros behind them.
uint64_t load_start(const char* bytes, size_t size) {
  if (size >= 8) return load_u64(bytes);
  if (size >= 4) return load_u32(bytes) | load_u32(bytes + size - 4) << (8 * (size - 4));
  if (size == 0) return 0;
  return load_byte(bytes) | load_byte(bytes + size / 2) << (8 * (size / 2)) |
         load_byte(bytes + size - 1) << (8 * (size - 1));
}

}  // namespace

MergeTable::MergeTable(size_t most) : shift_(table_shift(most)) { slots_.resize(size_t{1} << (64 - shift_)); }

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  size_t at = mix_bits(key) >> shift_;
  while (slots_[at].merge.rank != kNone && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, merge};
  size_t bit = mix_bits(key) >> (64 - kFilterBits);
  filter_[bit / 64] |= uint64_t{1} << (bit % 64);
}

size_t WordKey::blanks_of(std::string_view word) {
  if (word.size() <= kLongest) return 0;
  size_t count = 0;
  while (count < kMostBlanks && word.substr(kBlankSize * count).starts_with("\xE2\x96\x81")) ++count;
  return count;
}

WordKey::WordKey(std::string_view word, size_t blanks, uint64_t kind) {
  word.remove_prefix(kBlankSize * blanks);
  size = word.size() + 32 * kind + 64 * blanks;
  parts[0] = load_start(word.data(), word.size());
  if (word.size() > 8) parts[1] = load_start(word.data() + 8, word.size() - 8);
  if (word.size() > 16) parts[2] = load_start(word.data() + 16, word.size() - 16);
}

WordTable::WordTable(size_t most) : shift_(table_shift(most)) { slots_.resize(size_t{1} << (64 - shift_)); }

uint64_t WordTable::hash(std::string_view word) {
  uint64_t hash = word.size();
  for (; word.size() > 8; word.remove_prefix(8)) hash = mix_bits(hash + load_u64(word.data()));
  return mix_bits(hash + load_start(word.data(), word.size()));
}

void WordTable::add(std::string_view word, int32_t id) {
  uint64_t value = hash(word);
  size_t at = value >> shift_;
  while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {static_cast<uint32_t>(value), id};
}

int32_t WordTable::find(std::string_view word, const std::vector<std::string>& tokens) const {
  uint64_t value = hash(word);
  for (size_t at = value >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.id < 0) return -1;
    if (slot.check == static_cast<uint32_t>(value) && tokens[slot.id] == word) return slot.id;
  }
}

bool WordCache::find(const WordKey& key, uint64_t hash, std::vector<TokenPiece>& out) const {
  size_t at = hash >> 49;
  for (const Entry* entry : {&entries_[at], &entries_[at ^ 1]}) {
    if (entry->size != key.size || entry->parts != key.parts) continue;
    for (size_t i = 0; i < entry->count; ++i) out.push_back({entry->ids[i], entry->sizes[i]});
    return true;
  }
  return false;
}

void WordCache::put(const WordKey& key, uint64_t hash, const TokenPiece* pieces, size_t count) {
  if (count > kMostTokens) return;
  Entry& entry = entries_[hash >> 49];
  if (entry.size != 0) entries_[(hash >> 49) ^ 1] = entry;
  entry.parts = key.parts;
  entry.size = static_cast<uint16_t>(key.size);
  entry.count = static_cast<uint8_t>(count);
  for (size_t i = 0; i < count; ++i) {
    entry.ids[i] = pieces[i].id;
    entry.sizes[i] = static_cast<uint8_t>(pieces[i].size);
  }
}

CutTable::CutTable() : bits_((kPairs + (size_t{1} << kHashedBits)) / 64) {}

void CutTable::add_token(std::string_view token) {
  size_t at = 0;
  while (at < token.size() && (static_cast<uint8_t>(token[at]) & 0xC0) == 0x80) ++at;
  // The end of a character that starts before the token.
  bool left_is_part = at > 0;
  char32_t left = 0;
  while (at < token.size()) {
    Utf8Step step = utf8_step(token.substr(at));
    auto lead = static_cast<uint8_t>(token[at]);
    char32_t right = step.valid ? step.code_point : step.incomplete ? kStart + lead : char32_t{0xFFFD};
    if (left_is_part) {
      set(kParts + (size_t{static_cast<uint8_t>(token[at - 1])} << 8 | lead));
    } else if (at > 0) {
      set(pair_bit(left, right));
    }
    left_is_part = false;
    left = right;
    at += step.size;
  }
}

}  // namespace stoker
