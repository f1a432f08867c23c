#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stoker {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using StringToId = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

// Byte-pair encoding of one word (Sennrich et al. 2016, "Neural machine translation of rare words with
// subword units", algorithm 1): the adjacent pair of lowest rank is merged, the leftmost first, until none
// has a rank.
class BpeModel {
 public:
  // A word's token and its length in bytes.
  struct Piece {
    int32_t id = 0;
    uint32_t size = 0;
  };

  // Buffers of encode, to be reused between words by one thread.
  struct Workspace {
    struct Symbol {
      int32_t id;
      int32_t previous;
      int32_t next;
      uint32_t size;  // bytes; 0: merged into its left neighbour
    };
    struct Candidate {
      uint32_t rank;
      int32_t position;  // symbol on the left
      int32_t merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // The token of each single byte.
  std::array<int32_t, 256> byte_ids{};

  // Pairs merge in the order in which they are added; adding a pair again moves it to the later rank.
  void add_merge(int32_t left, int32_t right, int32_t merged);
  // A word that is a token as a whole is not taken apart (tokenizer.json's ignore_merges).
  void set_whole_words(StringToId words) { whole_words_ = std::move(words); }

  // Appends the tokens of `word` in O(n log n).
  void encode(std::string_view word, Workspace& workspace, std::vector<Piece>& out) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };
  const Merge* find_merge(int32_t left, int32_t right) const;
  void push_candidate(Workspace& workspace, int32_t position) const;
  void merge_all(Workspace& workspace) const;

  std::unordered_map<uint64_t, Merge> merges_;  // by left << 32 | right
  uint32_t next_rank_ = 0;
  StringToId whole_words_;
};

}  // namespace stoker
