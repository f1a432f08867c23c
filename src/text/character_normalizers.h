#pragma once

#include <memory>
#include <string>

#include "text/normalizer.h"
#include "text/regex_splitter.h"

namespace stoker {

// Normalizers that look at one character at a time, as Hugging Face's tokenizers define them
// (tokenizers/src/normalizers).

// Each character in lower case by itself (a final sigma is like any other); cases of Unicode 17.
std::unique_ptr<const Normalizer> make_lowercase_normalizer();
// Leaves out marks of every kind, those of Unicode 9.
std::unique_ptr<const Normalizer> make_strip_accents_normalizer();
// SentencePiece's "nmt" step: control characters go, further white space becomes a blank.
std::unique_ptr<const Normalizer> make_nmt_normalizer();
// Takes white space off the ends.
std::unique_ptr<const Normalizer> make_strip_normalizer(bool left, bool right);
// Puts `prefix` before a text that is not empty.
std::unique_ptr<const Normalizer> make_prepend_normalizer(std::string prefix);
// Puts `by` in the place of each match that is not empty.
std::unique_ptr<const Normalizer> make_pattern_normalizer(RegexSplitter pattern, std::string by);

}  // namespace stoker
