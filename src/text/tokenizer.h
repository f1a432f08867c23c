#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace stoker {

// Which added tokens text may become. A control token is a special one, or one whose name is a tag in angle
// brackets ("<tool_call>", which Qwen marks as not special): what a chat template places and nobody may type.
enum class AddedTokens {
  kPlain,       // only those that are no control tokens: for text of users, tools and models
  kNonSpecial,  // those not marked special: Hugging Face's split_special_tokens=True
  kAll,         // all: for the text of a trusted template
};

// A stretch of text and what may become of it.
struct TextPiece {
  std::string_view text;
  AddedTokens added_tokens = AddedTokens::kPlain;
};

// The same as a range of a larger text.
struct TrustRange {
  size_t begin = 0;
  size_t end = 0;
  AddedTokens added_tokens = AddedTokens::kPlain;
};

// One token of an encoded text and the bytes it stands for: [begin, end) of the concatenated pieces. With the
// strip flags of added tokens the range includes the blanks that went into the token. Where the normalizer
// rewrites a stretch, each token of it stands for the whole stretch, so that ranges may overlap; bytes that
// were put in stand for the byte that follows.
struct EncodedToken {
  int32_t id = 0;
  size_t begin = 0;
  size_t end = 0;
};

struct PostProcessor;
struct TokenizerState;

// A tokenizer, in the terms of Hugging Face's tokenizer.json. Immutable; any number of threads may use one.
// Encoding runs normalizer -> added tokens -> pre-tokenizer -> model; each has a header of its own.
//
//   std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::load("model");   // throws Error(kInput)
//   std::vector<int32_t> ids = tokenizer->encode("What is 1+2?");
//   std::string text = tokenizer->decode(ids);                              // the same bytes
//
// Text is bytes: with a vocabulary that has a token for each byte, what is no UTF-8 is encoded byte by byte
// and comes back as it was; else it becomes the token for the unknown. Encoding takes O(n log n) for any
// text. Token ids are the truth and text a view: decode and encode are no inverse of each other on ids.
class Tokenizer {
 public:
  // `path`: a tokenizer.json, a SentencePiece or tiktoken file, told apart by their content, or the directory
  // that holds one; of several there tokenizer.json goes first, then tokenizer.model, then *.tiktoken. The
  // tokenizer_config.json beside the latter two adds what they do not say. A file that is broken,
  // contradictory, or of a kind that is not supported throws Error(kInput) naming the file, the place and the
  // remedy. GGUF files are for load_tokenizer (model/gguf_tokenizer.h).
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path);
  static std::shared_ptr<const Tokenizer> from_json(const Json& json, const std::string& what);
  ~Tokenizer();

  // Untrusted text: control tokens inside are text (shared case TOK-11). Nothing is put in front or behind.
  std::vector<int32_t> encode(std::string_view text) const;
  // Text of a trusted template: control tokens are parsed.
  std::vector<int32_t> encode_with_special(std::string_view text) const;
  // Pieces of different trust as one text: ordinary tokens may span pieces, as they do when the whole is
  // encoded at once; added tokens lie within one piece.
  std::vector<EncodedToken> encode_pieces(std::span<const TextPiece> pieces) const;
  // The same with the pieces as ranges of the joined text, which tile it in order; none is empty.
  std::vector<EncodedToken> encode_ranges(std::string_view text, std::span<const TrustRange> ranges) const;

  // The tokens that the model's makers put in front of and behind a single text; encode leaves them out.
  const PostProcessor& post_processor() const;

  // The bytes of the tokens, joined; perhaps no UTF-8 (see to_valid_utf8). Ids without a token give nothing.
  // Blanks are never cleaned up. `keep_special` false leaves out tokens that the file marks as special.
  std::string decode(std::span<const int32_t> ids, bool keep_special = true) const;
  // The bytes of one token, empty for an id without a token. Valid as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;
  // The same where the token is the first one of the decoded text.
  std::string_view first_token_bytes(int32_t id) const;
  // How many blanks are dropped where the decoded text starts with them.
  size_t dropped_leading_blanks() const;

  // An added token by its content, else a vocabulary token by its name in the file.
  std::optional<int32_t> token_to_id(std::string_view name) const;
  // Same; throws Error(kInput) when there is none.
  int32_t require_token(std::string_view name) const;
  // One more than the largest id; what lies above in a model's output has no token and must not be sampled.
  int32_t vocabulary_size() const;
  bool has_token(int32_t id) const;
  bool is_special(int32_t id) const;
  bool is_control(int32_t id) const;

 private:
  explicit Tokenizer(std::unique_ptr<const TokenizerState> state);

  std::unique_ptr<const TokenizerState> state_;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

}  // namespace stoker
