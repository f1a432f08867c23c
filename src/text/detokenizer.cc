#include "text/detokenizer.h"

#include <utility>

#include "base/utf8.h"

namespace stoker {

Detokenizer::Detokenizer(TokenizerPtr tokenizer, bool keep_special, TextPosition position)
    : tokenizer_(std::move(tokenizer)), keep_special_(keep_special), position_(position) {
  restart();
}

void Detokenizer::restart() {
  first_ = position_ == TextPosition::kStart;
  droppable_blanks_ = first_ ? tokenizer_->dropped_leading_blanks() : 0;
}

// The token's bytes without what is dropped at the start of the text.
std::string_view Detokenizer::bytes_of(int32_t id) {
  std::string_view bytes = first_ ? tokenizer_->first_token_bytes(id) : tokenizer_->token_bytes(id);
  first_ = first_ && !tokenizer_->has_token(id);
  while (droppable_blanks_ > 0 && !bytes.empty()) {
    if (bytes.front() != ' ') {
      droppable_blanks_ = 0;
      break;
    }
    bytes.remove_prefix(1);
    --droppable_blanks_;
  }
  return bytes;
}

std::string Detokenizer::push(int32_t id) {
  if (!keep_special_ && tokenizer_->is_special(id)) return "";
  held_ += bytes_of(id);
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

std::string Detokenizer::finish() {
  restart();
  return std::exchange(held_, std::string());
}

}  // namespace stoker
