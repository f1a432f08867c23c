#pragma once

#include <coroutine>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stoker {

inline constexpr std::string_view kTurnBlanks = " \t\r\n";

inline bool is_turn_blank(int byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

// `text` without blanks at its ends.
inline std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(kTurnBlanks);
  return begin == std::string_view::npos ? ""
                                         : text.substr(begin, text.find_last_not_of(kTurnBlanks) - begin + 1);
}

// The text of a turn as far as it has been fed, with the place up to which it has been read. Keeps all of it:
// results quote it and recovery goes back in it.
class TurnInput {
 public:
  static constexpr int kEnd = -1;

  void append(std::string_view piece) { text_ += piece; }
  void end() { ended_ = true; }
  // Goes on with the reader that waits for text, if one does.
  void resume() {
    if (std::coroutine_handle<> reader = std::exchange(waiting_, nullptr)) reader.resume();
  }

  std::string_view text() const { return text_; }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  std::string_view between(size_t begin, size_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  size_t at() const { return at_; }
  size_t size() const { return text_.size(); }
  bool ended() const { return ended_; }
  void skip(size_t bytes) { at_ += bytes; }
  void seek(size_t place) { at_ = place; }

  struct Awaiter {
    TurnInput& input;
    bool ready;
    bool await_ready() const noexcept { return ready || input.ended_; }
    void await_suspend(std::coroutine_handle<> reader) const noexcept { input.waiting_ = reader; }
    int await_resume() const noexcept {
      return input.at_ < input.text_.size() ? static_cast<unsigned char>(input.text_[input.at_]) : kEnd;
    }
  };
  // Awaits that the text has grown or ended.
  Awaiter more() { return {*this, false}; }
  // Awaits the byte at the place read up to, which it does not consume; kEnd at the end of the turn.
  Awaiter byte() { return {*this, at_ < text_.size()}; }

 private:
  std::string text_;
  size_t at_ = 0;
  bool ended_ = false;
  std::coroutine_handle<> waiting_ = nullptr;
};

inline constexpr int kNoTag = -1;
inline constexpr int kPartialTag = -2;

// Which of `tags` stands at `place`: the longest one that does; kPartialTag when the text fed so far ends in
// what could become a longer one.
inline int match_tag(const TurnInput& input, size_t place, std::span<const std::string_view> tags) {
  std::string_view rest = input.text().substr(place);
  int found = kNoTag;
  size_t longest = 0;
  for (size_t i = 0; i < tags.size(); ++i) {
    if (rest.starts_with(tags[i])) {
      if (found == kNoTag || tags[i].size() > longest) {
        found = static_cast<int>(i);
        longest = tags[i].size();
      }
    } else if (!input.ended() && tags[i].starts_with(rest)) {
      return kPartialTag;
    }
  }
  return found;
}

}  // namespace stoker
