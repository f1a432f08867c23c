#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_model.h"

namespace stoker {

// The unigram language model over subwords (Kudo 2018, "Subword regularization", section 3.2): of all ways to
// cut a word into tokens, the one with the largest sum of scores. Scores are added from the left in float64
// and of equal sums the one found first stays, as Hugging Face's tokenizers do
// (tokenizers/src/models/unigram), so the tokens are the same; SentencePiece adds in float32, which decides
// some ties otherwise. Takes O(n) steps for a word of n bytes and a vocabulary of bounded token length.
class UnigramModel : public TokenModel {
 public:
  // A token by its id; `matches` false: never found in text (a control token, a byte).
  struct Token {
    std::string text;
    double score = 0;
    bool matches = true;
  };

  // `unknown`: what characters without a token become, neighbours together. `byte_ids`: then they become the
  // tokens of their bytes instead. `single`: scores are added in float32.
  UnigramModel(const std::vector<Token>& tokens, std::optional<int32_t> unknown,
               std::optional<std::array<int32_t, 256>> byte_ids, bool single = false);

  std::unique_ptr<Scratch> make_scratch() const override;
  // Without `unknown` and `byte_ids`, characters without a token give none, and the sizes leave them out.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenPiece>& out) const override;

 private:
  // The best way to the end of a prefix.
  struct Best {
    double score = 0;
    int32_t id = kNone;
    uint32_t begin = 0;  // of its last token
  };
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kUnknown = -2;
  struct UnigramScratch : Scratch {
    std::vector<Best> best;  // by the length of the prefix
    std::vector<TokenPiece> reversed;
  };

  // A tree over the bytes of the tokens; children are found by hashing (node, byte).
  struct Edge {
    uint64_t key = ~uint64_t{0};  // node << 8 | byte
    uint32_t node = 0;
  };
  struct Node {
    int32_t id = kNone;
    double score = 0;
  };

  double sum(double a, double b) const {
    return single_ ? static_cast<double>(static_cast<float>(a + b)) : a + b;
  }
  void insert(std::string_view text, int32_t id, double score);
  const Node* find(std::string_view text) const;
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0: none
  void grow_edges();
  void relax(std::string_view word, size_t begin, std::vector<Best>& best) const;
  void append_unknown(std::string_view text, std::vector<TokenPiece>& out) const;

  std::vector<Node> nodes_{Node{}};
  std::vector<Edge> edges_ = std::vector<Edge>(1024);  // open addressing, a power of two
  double unknown_score_ = 0;
  bool single_ = false;
  std::optional<int32_t> unknown_;
  std::optional<std::array<int32_t, 256>> byte_ids_;
};

class TokenizerPart;

// Reads the member "model" of the type Unigram. Tokens named in `hidden` (control tokens) are never found in
// text; nor are byte tokens and the unknown token, as in SentencePiece. Throws Error(kInput) naming the file
// and the place.
ModelVocabulary read_unigram_model(const TokenizerPart& part, const StringToId& hidden);

}  // namespace stoker
