#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pretokenizer.h"
#include "text/token_model.h"
#include "text/tokenizer.h"

namespace stoker {

// What one call of encode works with.
struct EncodeScratch {
  std::unique_ptr<TokenModel::Scratch> model;
  AlignedText normalized;
  SplitText split;
  std::vector<TokenPiece> pieces;
  std::string joined;              // of pieces of text
  std::vector<TrustRange> ranges;  // of them
  std::vector<TextSegment> raw;    // the text at the added tokens of each pass
  std::vector<TextSegment> normal;
  std::vector<TrustRange> part;  // of `ranges`, those of a segment
};

// Scratches that wait for the next call, at most kKept, so that their caches stay warm and bounded. Any
// number of threads may take and give back.
class ScratchPool {
 public:
  static constexpr size_t kKept = 4;

  std::unique_ptr<EncodeScratch> take(const TokenModel& model);
  void give_back(std::unique_ptr<EncodeScratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

// What a tokenizer knows; filled once by read_tokenizer_json.
struct TokenizerState {
  struct Token {
    std::string bytes;
    bool present = false;  // ids may have holes
    bool special = false;
    bool control = false;
  };

  std::string what;                              // names the tokenizer in errors
  std::vector<Token> tokens;                     // by id
  StringToId ids;                                // by name in the file, by content for added tokens
  std::unique_ptr<const Normalizer> normalizer;  // may be null
  AddedTokenFinder added;
  PreTokenizer pretokenizer;
  std::unique_ptr<const TokenModel> model;
  PostProcessor post_processor;
  size_t dropped_leading_blanks = 0;  // where decoded text starts with them
  // Tokens whose bytes differ where they are the first to be decoded.
  std::unordered_map<int32_t, std::string> first_bytes;
  mutable ScratchPool scratches;
};

// Reads a parsed tokenizer.json; throws Error(kInput) as Tokenizer::load says.
std::unique_ptr<const TokenizerState> read_tokenizer_json(const Json& json, const std::string& what);

}  // namespace stoker
