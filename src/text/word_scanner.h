#pragma once

#include <cstddef>
#include <string_view>

namespace stoker {

// Length of the first word of `text` (not empty) under GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// (Radford et al. 2019, the released encoder.py). Bytes that are no UTF-8 count as characters that are
// neither letter, number nor white space.
size_t gpt2_word_length(std::string_view text);

}  // namespace stoker
