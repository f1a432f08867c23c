#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_tables.h"
#include "text/token_model.h"

namespace stoker {

// What a BPE model is made from.
struct BpeDefinition {
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t merged;
  };

  // Words are bytes, of which those that are no token are left out; else words are UTF-8 characters.
  bool byte_level = true;
  std::vector<std::string> tokens;  // by id, the bytes of a word that it stands for; empty: none
  std::vector<Merge> merges;        // best first; of two with the same pair the later one counts
  bool ignore_merges = false;       // a word that is a token as a whole is not taken apart
  // For characters that are no token, of words of characters: the tokens of their bytes (all or none are
  // there), else the token for the unknown, one for a run of them when fused.
  std::optional<std::array<int32_t, 256>> byte_tokens;
  std::optional<int32_t> unknown;
  bool fuse_unknown = false;
};

// Byte-pair encoding of one word (Sennrich et al. 2016, "Neural machine translation of rare words with
// subword units", algorithm 1): the adjacent pair of lowest rank is merged, the leftmost first, until none
// has a rank. O(n log n) for a word of n bytes.
//
// A long word is first cut between characters over whose boundary no token reaches, which gives the same
// tokens. Words that a WordKey holds are looked up in a cache of the scratch and among the tokens that their
// own bytes encode to.
class BpeModel : public TokenModel {
 public:
  // Throws Error(kInternal) where the definition's ids are outside its tokens.
  explicit BpeModel(BpeDefinition definition);

  std::unique_ptr<Scratch> make_scratch() const override;
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const override;
  // The same by merging alone, without cache, cuts and whole words: the plain twin of encode.
  void merge_word(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const;

 private:
  struct Symbol {
    int32_t id;
    uint32_t size;  // bytes
    int32_t previous;
    int32_t next;
  };
  struct Buffers;
  // What a word is: all that came out of pre-tokenization, or a part of it, which is never a token without
  // merges.
  enum class Extent { kWhole, kPart };

  void append_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  void append_character(std::string_view character, int32_t id, std::vector<Symbol>& symbols) const;
  MergeTable::Merge first_merge(std::string_view word, size_t at, const Symbol& left,
                                const Symbol& right) const;
  void merge_short(std::string_view word, Buffers& buffers, std::vector<TokenPiece>& out) const;
  void merge_long(Buffers& buffers, std::vector<TokenPiece>& out) const;
  void encode_uncached(std::string_view word, Extent extent, Buffers& buffers,
                       std::vector<TokenPiece>& out) const;
  void encode_extent(std::string_view word, Extent extent, Buffers& buffers,
                     std::vector<TokenPiece>& out) const;
  bool leaves_out(std::string_view word) const;
  int32_t character_token(std::string_view character) const;
  void find_whole_words();

  BpeDefinition definition_;
  MergeTable merges_;
  std::vector<MergeTable::Merge>
      byte_pairs_;           // by two bytes: of their tokens, ASCII only where words are characters
  WordTable words_;          // tokens that a whole word of their bytes gives
  std::vector<bool> whole_;  // by id: merging the token's bytes gives the token
  std::array<int32_t, 256> byte_ids_{};  // of single bytes; of ASCII characters where words are characters
  CutTable cuts_;
  bool lacks_bytes_ = false;       // some byte is no token
  bool cuts_whole_words_ = false;  // also those that fit into the cache
};

}  // namespace stoker
