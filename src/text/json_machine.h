#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoker {

// Reads one JSON value (RFC 8259) byte by byte, with the open brackets on a stack of its own. A value at the
// top must start with its first byte: blanks before it are invalid. Nesting is limited to 128 levels.
class JsonMachine {
 public:
  enum class Step {
    kMore,     // the byte belongs to the value, which goes on
    kDone,     // the byte ends the value
    kBefore,   // the value (a number) ended before this byte
    kInvalid,  // the byte cannot be part of the value: see reason()
  };
  static constexpr size_t kNoString = static_cast<size_t>(-1);

  Step push(char c);

  struct Progress {
    Step step = Step::kMore;  // of the last byte looked at
    size_t used = 0;          // bytes of the text that belong to the value
  };
  // Pushes the bytes of `text` up to the first step that is not kMore.
  Progress push(std::string_view text);

  // After kInvalid: what was expected, a clause: "a colon was expected".
  const char* reason() const { return reason_; }
  // The number of bytes that belong to the value so far.
  size_t size() const { return size_; }
  // Where the string begins that the next byte would belong to; kNoString outside of strings.
  size_t string_begin() const { return in_string() ? string_begin_ : kNoString; }

 private:
  enum class State {
    kValue,
    kFirstElement,
    kFirstName,
    kName,
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kWord,
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  bool in_string() const {
    return state_ == State::kString || state_ == State::kEscape || state_ == State::kHex;
  }
  Step step(char c);
  Step structure(char c);
  Step value(char c);
  Step string(char c);
  Step escape(char c);
  Step hex(char c);
  Step word(char c);
  Step number(char c);
  Step to(State state) {
    state_ = state;
    return Step::kMore;
  }
  Step to_string(bool name);
  Step close();
  Step end_value();
  Step fail(const char* reason) {
    reason_ = reason;
    return Step::kInvalid;
  }

  State state_ = State::kValue;
  std::string open_;       // the brackets around the place
  const char* word_ = "";  // what is left of true, false or null
  int hex_digits_ = 0;     // still to come
  bool is_name_ = false;   // the string is a member's name
  size_t size_ = 0;
  size_t string_begin_ = 0;
  const char* reason_ = "";
};

}  // namespace stoker
