#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace stoker {

// [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// The regular expressions of public tokenizers for which a scanner is written by hand: the same matches as
// the reference's engine, in linear time. Each pattern's text stands in word_scanner.cc.
enum class WordPattern {
  kGpt2,         // GPT-2, SmolLM, Phi-2 (Radford et al. 2019, the released encoder.py)
  kCl100k,       // Llama 3, Phi-4: up to three digits
  kQwen2,        // Qwen 2 to 3: single digits
  kQwen35,       // Qwen 3.5: marks are letters
  kO200k,        // Llama 4, Phi-4-mini: words split at capitals
  kTekken,       // Mistral NeMo and later
  kDeepSeek3,    // DeepSeek V3's words
  kThreeDigits,  // runs of at most three digits
  kDigit,        // single digits
  kSpacesAtEnd,  // white space before the end of a line
};

// The pattern that a tokenizer.json writes as `regex`, if it is one of them.
std::optional<WordPattern> known_pattern(std::string_view regex);
// The text of a known pattern, for comparison with a general engine.
std::string_view pattern_regex(WordPattern pattern);

// Appends the matches of the pattern in `text`, counted from its start, that are not empty. Bytes that are no
// UTF-8 count as U+FFFD.
void scan_words(WordPattern pattern, std::string_view text, std::vector<TextRange>& matches);

}  // namespace stoker
