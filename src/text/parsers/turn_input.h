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

  // What a reader waits for where the text fed so far ends.
  class Step {
   public:
    // Reads on as far as the text goes. True: the reader goes on; false: it needs more text.
    virtual bool advance() = 0;

   protected:
    ~Step() = default;

   private:
    friend class TurnInput;
    std::coroutine_handle<> reader_;
  };

  // Text that arrives in pieces.
  TurnInput() = default;
  // The whole text, which must outlive this.
  explicit TurnInput(std::string_view whole) : text_(whole), ended_(true) {}
  TurnInput(const TurnInput&) = delete;
  TurnInput& operator=(const TurnInput&) = delete;

  void append(std::string_view piece) {
    pieces_ += piece;
    text_ = pieces_;
  }
  void end() { ended_ = true; }
  void wait(Step& step, std::coroutine_handle<> reader) {
    step.reader_ = reader;
    waiting_ = &step;
  }
  // Goes on with the reader that waits for text, if one does and the text suffices.
  void resume() {
    if (waiting_ != nullptr && waiting_->advance()) std::exchange(waiting_, nullptr)->reader_.resume();
  }

  std::string_view text() const { return text_; }
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view between(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }
  size_t at() const { return at_; }
  size_t size() const { return text_.size(); }
  bool ended() const { return ended_; }
  void skip(size_t bytes) { at_ += bytes; }
  void seek(size_t place) { at_ = place; }

  class Awaiter;
  // Awaits that the text has grown or ended.
  Awaiter more();
  // Awaits the byte at the place read up to, which it does not consume; kEnd at the end of the turn.
  Awaiter byte();

  // The byte at the place read up to, or kEnd behind the last one.
  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : kEnd; }

 private:
  std::string_view text_;
  std::string pieces_;
  size_t at_ = 0;
  bool ended_ = false;
  Step* waiting_ = nullptr;
};

// A Step that a reader awaits for its result: the leaves of the grammars, which need no coroutine of their
// own and, while the text suffices, nothing but their code.
template <typename T>
class Scanner : public TurnInput::Step {
 public:
  bool await_ready() { return advance(); }
  void await_suspend(std::coroutine_handle<> reader) { in_.wait(*this, reader); }
  T await_resume() { return std::move(result_); }

 protected:
  explicit Scanner(TurnInput& in) : in_(in) {}

  TurnInput& in_;
  T result_{};
};

// Ready once the text has `size` bytes or has ended.
class TurnInput::Awaiter final : public Scanner<int> {
 public:
  Awaiter(TurnInput& in, size_t size) : Scanner(in), size_(size) {}
  bool advance() override {
    result_ = in_.peek();
    return in_.size() >= size_ || in_.ended();
  }

 private:
  size_t size_;
};

inline TurnInput::Awaiter TurnInput::more() { return {*this, size() + 1}; }
inline TurnInput::Awaiter TurnInput::byte() { return {*this, at_ + 1}; }

inline constexpr int kNoTag = -1;
inline constexpr int kPartialTag = -2;

// Which of `tags` stands at `place`: the longest one that does; kPartialTag when the text fed so far ends in
// what could become a longer one.
inline int match_tag(const TurnInput& input, size_t place, std::span<const std::string_view> tags) {
  std::string_view rest = input.text().substr(place);
  int found = kNoTag;
  size_t longest = 0;
  for (size_t i = 0; i < tags.size(); ++i) {
    if (!rest.empty() && rest[0] != tags[i][0]) continue;
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
