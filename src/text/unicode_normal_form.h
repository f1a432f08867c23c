#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/normalizer.h"

namespace stoker {

// The normal forms of Unicode (Unicode Standard Annex 15).
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Is this a mark or a character with a decomposition that Hugging Face's tables do not know? Only of use for
// characters that utf8proc takes for either.
bool came_after_unicode_9(char32_t code_point);

// Normalizes as Hugging Face's tokenizers do, whose tables are those of Unicode 9: what came later has no
// decomposition and no combining class. Linear but for the sorting of marks; a stretch that changes stands
// for its original as a whole.
std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form);

// `text` in the form; bytes that are no UTF-8 stay and part the text around them.
std::string to_normal_form(std::string_view text, NormalForm form);

}  // namespace stoker
