#include "text/detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace stoker {

Detokenizer::Detokenizer(TokenizerPtr tokenizer, bool keep_special)
    : tokenizer_(std::move(tokenizer)), keep_special_(keep_special) {}

std::string Detokenizer::push(int32_t id) {
  if (!keep_special_ && tokenizer_->is_special(id)) return "";
  held_ += tokenizer_->token_bytes(id);
  // Only the last three bytes can start a character that is not whole. Steps from a byte that continues one
  // give invalid steps of one byte until the next character starts, so it does not matter where the scan
  // begins.
  size_t certain = held_.size() > 3 ? held_.size() - 3 : 0;
  while (certain < held_.size()) {
    Utf8Step step = utf8_step(std::string_view(held_).substr(certain));
    if (step.incomplete) break;
    certain += step.size;
  }
  std::string released = held_.substr(0, certain);
  held_.erase(0, certain);
  return released;
}

std::string Detokenizer::finish() { return std::exchange(held_, std::string()); }

}  // namespace stoker
