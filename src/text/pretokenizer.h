#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/word_scanner.h"

namespace stoker {

// A text while it is cut into words. Bytes between words belong to no word. Reused between texts by one
// thread.
struct SplitText {
  std::string_view text;
  bool at_start = true;  // of the whole input: nothing was before
  std::vector<TextRange> words;
  AlignedText rewritten;  // holds `text` where a step has changed it
  bool is_rewritten = false;
  std::vector<TextRange> spare;
  std::vector<TextRange> matches;

  // One word, the whole text. `tracked`: origins are wanted for bytes that a step changes.
  void assign(std::string_view whole, bool starts_input, bool tracked);
  std::string_view word(const TextRange& range) const {
    return text.substr(range.begin, range.end - range.begin);
  }
};

// One step of pre-tokenization: cuts each word further and may rewrite it. Immutable.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void apply(SplitText& split) const = 0;
};

// What cuts text into the words that the model sees. Immutable.
class PreTokenizer {
 public:
  // Without steps: the whole text is one word.
  PreTokenizer() = default;
  // Reads the member "pre_tokenizer" (null: no steps): ByteLevel, Digits, Metaspace, Punctuation, Split,
  // Whitespace, WhitespaceSplit and Sequences of them. Throws Error(kInput) naming the file and the place.
  explicit PreTokenizer(const TokenizerPart& part);

  // Words are bytes for a vocabulary written in GPT-2's map.
  bool byte_level() const { return byte_level_; }
  // Cuts into words that are not empty, in the order of the text.
  void apply(SplitText& split) const;

 private:
  std::vector<std::unique_ptr<const PreTokenizerStep>> steps_;
  bool byte_level_ = false;
};

}  // namespace stoker
