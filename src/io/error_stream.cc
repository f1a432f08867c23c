#include "io/error_stream.h"

#include "base/log.h"

namespace stoker {

std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) c = '?';
  }
  return result;
}

void ErrorStream::feed(std::string_view bytes, TimePoint now) {
  lines_.feed(bytes, [&](std::string_view line) { take(line, now); });
}

void ErrorStream::finish(TimePoint now) {
  if (!lines_.rest().empty()) {
    const std::string rest(lines_.rest());
    take(rest, now);
  }
  tell_left_out();
}

void ErrorStream::take(std::string_view line, TimePoint now) {
  if (line.empty()) return;
  std::string text = printable(line);
  if (now - second_ >= std::chrono::seconds(1)) {
    tell_left_out();
    second_ = now;
    logged_ = 0;
  }
  if (logged_ < kLinesASecond) {
    ++logged_;
    log_info("[{}] {}", name_, text);
  } else {
    ++left_out_;
  }
  last_bytes_ += text.size();
  last_.push_back(std::move(text));
  while (last_.size() > kKeptLines || (last_bytes_ > kKeptBytes && last_.size() > 1)) {
    last_bytes_ -= last_.front().size();
    last_.pop_front();
  }
}

void ErrorStream::tell_left_out() {
  if (left_out_ == 0) return;
  log_warning("[{}] {} more lines of its standard error were left out.", name_, left_out_);
  left_out_ = 0;
}

std::string ErrorStream::last_words() const {
  std::string words;
  for (const std::string& line : last_) words += (words.empty() ? "" : " | ") + line;
  return words;
}

}  // namespace stoker
