#pragma once

#include <cstdint>
#include <vector>

#include "text/token_model.h"

namespace stoker {

class TokenizerPart;

// The tokens that a model's makers put around a single text ("<s>" in front, ...). Plain encoding leaves them
// out; templates place their own.
struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> after;

  // `ids` with the tokens around them; those that are there already are not put there again (TPL-07), so that
  // a rendered prompt keeps one BOS.
  std::vector<int32_t> surround(const std::vector<int32_t>& ids) const;
};

// Reads the member "post_processor"; null gives nothing to add. `ids` names all tokens, added ones too.
// Throws Error(kInput) naming the file and the place.
PostProcessor read_post_processor(const TokenizerPart& part, const StringToId& ids);

}  // namespace stoker
