#include "text/pretokenizer.h"

#include "text/tokenizer_part.h"
#include "text/word_scanner.h"

namespace stoker {
namespace {

// GPT-2's pattern.
class Gpt2Step : public PreTokenizerStep {
 public:
  void apply(SplitText& split) const override {
    split.spare.clear();
    for (TextRange word : split.words) {
      while (word.begin < word.end) {
        size_t length = gpt2_word_length(split.text.substr(word.begin, word.end - word.begin));
        split.spare.push_back({word.begin, word.begin + length});
        word.begin += length;
      }
    }
    split.words.swap(split.spare);
  }
};

}  // namespace

void SplitText::assign(std::string_view whole, bool starts_input, bool tracked) {
  text = whole;
  at_start = starts_input;
  words.clear();
  if (!whole.empty()) words.push_back({0, whole.size()});
  rewritten.tracked = tracked;
  is_rewritten = false;
}

PreTokenizer::PreTokenizer(const TokenizerPart& part) {
  if (part.json().is_null()) return;
  for (const TokenizerPart& step : part.flattened("pretokenizers")) {
    if (byte_level_) throw step.bad("comes after ByteLevel, which Stoker supports as the last step only");
    if (step.type() == "ByteLevel") {
      if (step.flag("add_prefix_space", true)) {
        throw step.member("add_prefix_space").bad("is true, which Stoker does not support");
      }
      if (step.flag("use_regex", true)) steps_.push_back(std::make_unique<Gpt2Step>());
      byte_level_ = true;
    } else {
      throw step.unsupported("ByteLevel and Sequence");
    }
  }
}

void PreTokenizer::apply(SplitText& split) const {
  for (const auto& step : steps_) step->apply(split);
}

}  // namespace stoker
