#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/tokenizer.h"

namespace stoker {

// An entry of tokenizer.json's added_tokens: text that is one token wherever it occurs.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // control; left out by decode on request
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // searched for after the others, in the normalized text

  // Special, or a tag in angle brackets.
  bool is_control() const;
};

// A stretch of text: one added token, or text between them.
struct TextSegment {
  const AddedToken* token = nullptr;
  size_t begin = 0;  // [begin, end) of the text
  size_t end = 0;
};

// Finds added tokens: leftmost, the longest there, as the reference does, with its order of passes (first
// those that are not normalized in the text as it is, then the others in the normalized rest) and its rule
// that a match which may not become a token still hides what lies inside it.
class AddedTokenFinder {
 public:
  enum class Pass { kRaw, kNormalized };

  AddedTokenFinder() = default;
  // The contents of normalized tokens are searched for as `normalizer` (perhaps null) writes them.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens, const Normalizer* normalizer = nullptr);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  // Whether any token is searched for in this pass.
  bool has(Pass pass) const { return tree(pass).nodes.size() > 1; }

  // Appends the segments of `text` at the added tokens of one pass; they tile it. `ranges` tile it too, in
  // order; a token lies within one of them.
  void split(Pass pass, std::string_view text, std::span<const TrustRange> ranges,
             std::vector<TextSegment>& out) const;

 private:
  // A tree over the bytes of the contents of one pass. Where nothing branches and no token ends, a node that
  // is entered from a branch gives all bytes at once up to the next node of interest, `run_end`.
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> children;  // in order of the byte
    int32_t token = -1;                                 // index into tokens_
    int32_t run_end = 0;                                // 0: this node itself
    std::string run;
  };
  struct Tree {
    std::vector<Node> nodes{Node{}};
    std::array<int32_t, 256> first{};  // children of the root; 0: none
  };
  struct Match {
    const AddedToken* token = nullptr;
    size_t size = 0;
  };

  const Tree& tree(Pass pass) const { return pass == Pass::kRaw ? raw_ : normalized_; }
  static void insert(Tree& tree, std::string_view content, int32_t token);
  static void join_runs(Tree& tree);
  Match longest_match(const Tree& tree, std::string_view text) const;

  std::vector<AddedToken> tokens_;
  Tree raw_;
  Tree normalized_;
};

}  // namespace stoker
