#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/normalizer.h"

namespace stoker {

// Which stretch of text one entry of the map takes the place of.
enum class CharsmapMatch {
  // As Hugging Face's "Precompiled": a grapheme cluster of at most five bytes, else one character; replaced
  // whole by the shortest entry that it starts with (tokenizers/src/normalizers/precompiled.rs).
  kGrapheme,
  // As SentencePiece itself: the longest entry at each place (sentencepiece/src/normalizer.cc).
  kLongest,
};

// SentencePiece's compiled map of characters (precompiled_charsmap): the size of a double-array trie in
// bytes, the trie, then the replacements, each ended by a zero byte. Empty when `charsmap` is broken;
// `problem` then says how. Reads nothing outside `charsmap`.
std::unique_ptr<const Normalizer> make_precompiled_normalizer(std::string_view charsmap, CharsmapMatch match,
                                                              std::string& problem);

}  // namespace stoker
