#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_model.h"

namespace stoker {

// A mix of 64 bits of which the upper ones are good (Fibonacci hashing, Knuth, The Art of Computer
// Programming 3, section 6.4, after folding).
inline uint64_t mix_bits(uint64_t value) {
  value ^= value >> 32;
  return value * 0x9E3779B97F4A7C15u;
}

// The pairs of tokens that merge: open addressing, filled once.
class MergeTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;  // ranks are below
  struct Merge {
    uint32_t rank = kNone;
    int32_t merged = 0;
  };

  MergeTable() : MergeTable(0) {}
  explicit MergeTable(size_t most);
  // A pair that is set again takes the later values.
  void set(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    uint64_t hash = mix_bits(key);
    // Most pairs do not merge; a small table of bits says so of most of those.
    size_t bit = hash >> (64 - kFilterBits);
    if (((filter_[bit / 64] >> (bit % 64)) & 1) == 0) return {};
    for (size_t at = hash >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.key == key || slot.merge.rank == kNone) return slot.merge;
    }
  }

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Merge merge;
  };
  static constexpr int kFilterBits = 21;
  std::vector<Slot> slots_;
  std::vector<uint64_t> filter_ = std::vector<uint64_t>((size_t{1} << kFilterBits) / 64);
  int shift_ = 63;
};

// A word in registers: at most 24 bytes behind a run of SentencePiece's blanks (U+2581), with which indented
// code begins.
struct WordKey {
  static constexpr size_t kLongest = 24;
  static constexpr size_t kBlankSize = 3;    // bytes of the blank
  static constexpr size_t kMostBlanks = 60;  // a token of such a word has fewer than 256 bytes

  // Blanks at the start of a word that is too long by itself, up to kMostBlanks; 0 for others.
  static size_t blanks_of(std::string_view word);
  static bool fits(std::string_view word, size_t blanks) {
    return word.size() - kBlankSize * blanks <= kLongest;
  }

  // `word` fits with its `blanks`. `kind` 0 or 1 keeps words apart whose tokens differ for the same bytes.
  WordKey(std::string_view word, size_t blanks, uint64_t kind);
  uint64_t hash() const { return mix_bits(parts[0] + mix_bits(parts[1] + mix_bits(parts[2] + size))); }

  std::array<uint64_t, 3> parts{};
  uint64_t size = 0;  // of what stands behind the blanks, + 32 for kind 1, + 64 for each blank
};

// Tokens by the words that they are: open addressing over the tokens' own bytes.
class WordTable {
 public:
  WordTable() : WordTable(0) {}
  explicit WordTable(size_t most);
  void add(std::string_view word, int32_t id);
  // The token, -1 when there is none. `tokens` holds the bytes by id.
  int32_t find(std::string_view word, const std::vector<std::string>& tokens) const;

 private:
  struct Slot {
    uint32_t check = 0;
    int32_t id = -1;
  };
  static uint64_t hash(std::string_view word);
  std::vector<Slot> slots_;
  int shift_ = 63;
};

// The words encoded lately and their tokens: 2 MiB, two places a word, the older one gives way. What is found
// is what was put in, so a result never depends on the cache.
class WordCache {
 public:
  WordCache() : entries_(kEntries) {}
  // Appends the word's tokens; false when it is not there.
  bool find(const WordKey& key, uint64_t hash, std::vector<TokenPiece>& out) const;
  // Keeps words of at most seven tokens.
  void put(const WordKey& key, uint64_t hash, const TokenPiece* pieces, size_t count);

 private:
  static constexpr size_t kEntries = size_t{1} << 15;
  static constexpr size_t kMostTokens = 7;
  struct alignas(64) Entry {
    std::array<uint64_t, 3> parts{};
    std::array<int32_t, kMostTokens> ids{};
    std::array<uint8_t, kMostTokens> sizes{};
    uint8_t count = 0;
    uint16_t size = 0;  // of the key; 0: nothing here
  };
  static_assert(sizeof(Entry) == 64);
  std::vector<Entry> entries_;
};

// Where a text may be cut before merging: between two characters over whose boundary no token reaches. Says
// no more often than it must: characters above U+007F share the bits of a fixed table, and parts of
// characters, which tokens of bytes may start or end with, are told apart by one byte.
class CutTable {
 public:
  CutTable();
  // `token`: bytes that may come out of merges.
  void add_token(std::string_view token);
  // `at` is the boundary inside `text` between the valid characters `left` and `right`.
  bool may_cut(std::string_view text, size_t at, char32_t left, char32_t right) const {
    if ((left | right) < 0x80) return !get(pair_bit(left, right));
    auto last = static_cast<uint8_t>(text[at - 1]);
    auto lead = static_cast<uint8_t>(text[at]);
    return !get(kParts + (size_t{last} << 8 | lead)) && !get(pair_bit(left, right)) &&
           !get(pair_bit(left, kStart + lead));
  }

 private:
  static constexpr size_t kAscii = size_t{1} << 14;
  static constexpr size_t kParts = kAscii;  // last byte of a started token's first character, lead byte
  static constexpr size_t kPairs = kParts + (1 << 16);
  static constexpr int kHashedBits = 21;
  static constexpr char32_t kStart =
      0x110000;  // + lead byte: a character of which a token has only the start

  static size_t pair_bit(char32_t left, char32_t right) {
    if ((left | right) < 0x80) return left << 7 | right;
    return kPairs + (mix_bits(uint64_t{left} << 32 | right) >> (64 - kHashedBits));
  }
  bool get(size_t bit) const { return (bits_[bit / 64] >> (bit % 64)) & 1; }
  void set(size_t bit) { bits_[bit / 64] |= uint64_t{1} << (bit % 64); }
  std::vector<uint64_t> bits_;
};

}  // namespace stoker
