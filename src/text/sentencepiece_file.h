#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace stoker {

// SentencePiece's tokenizer.model (google/sentencepiece, src/sentencepiece_model.proto), BPE and unigram.

// Do the bytes start as such a file does, with a piece?
bool looks_like_sentencepiece(std::string_view bytes);

// The description of the file in `bytes` as a tokenizer.json (see piece_vocabulary_json). `config`: the
// tokenizer_config.json beside it, null without one; its add_bos_token and add_eos_token say what is put
// around a text, else a file that has a BOS puts it in front. Throws Error(kInput) naming `what` and the
// place.
Json sentencepiece_json(std::string_view bytes, const Json& config, const std::string& what);

}  // namespace stoker
