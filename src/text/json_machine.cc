#include "text/json_machine.h"

#include <cctype>
#include <string_view>

namespace stoker {
namespace {

constexpr size_t kDeepestJson = 128;

bool is_json_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
// Neither ends a string nor is looked at in one.
bool is_plain_in_string(char c) { return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20; }
bool is_json_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

JsonMachine::Step JsonMachine::push(char c) {
  Step result = step(c);
  if (result == Step::kMore || result == Step::kDone) ++size_;
  return result;
}

JsonMachine::Progress JsonMachine::push(std::string_view text) {
  size_t used = 0;
  while (used < text.size()) {
    if (state_ == State::kString) {
      const size_t begin = used;
      while (used < text.size() && is_plain_in_string(text[used])) ++used;
      size_ += used - begin;
      if (used == text.size()) break;
    }
    const Step step = push(text[used]);
    if (step == Step::kMore || step == Step::kDone) ++used;
    if (step != Step::kMore) return {step, used};
  }
  return {Step::kMore, used};
}

JsonMachine::Step JsonMachine::step(char c) {
  switch (state_) {
    case State::kString:
      return string(c);
    case State::kEscape:
      return escape(c);
    case State::kHex:
      return hex(c);
    case State::kWord:
      return word(c);
    case State::kValue:
    case State::kFirstElement:
    case State::kFirstName:
    case State::kName:
    case State::kColon:
    case State::kAfterValue:
      return structure(c);
    default:
      return number(c);
  }
}

JsonMachine::Step JsonMachine::structure(char c) {
  if (is_json_blank(c) && size_ > 0) return Step::kMore;
  switch (state_) {
    case State::kFirstElement:
      return c == ']' ? close() : value(c);
    case State::kFirstName:
      if (c == '}') return close();
      [[fallthrough]];
    case State::kName:
      return c == '"' ? to_string(true) : fail("a member name in double quotes was expected");
    case State::kColon:
      return c == ':' ? to(State::kValue) : fail("a colon was expected");
    case State::kAfterValue:
      if (c == (open_.back() == '{' ? '}' : ']')) return close();
      if (c != ',') return fail("a comma or a closing bracket was expected");
      return to(open_.back() == '{' ? State::kName : State::kValue);
    default:
      return value(c);
  }
}

JsonMachine::Step JsonMachine::value(char c) {
  switch (c) {
    case '{':
    case '[':
      if (open_.size() == kDeepestJson) return fail("the nesting is too deep");
      open_.push_back(c);
      return to(c == '{' ? State::kFirstName : State::kFirstElement);
    case '"':
      return to_string(false);
    case '-':
      return to(State::kMinus);
    case '0':
      return to(State::kZero);
    case 't':
      word_ = "rue";
      return to(State::kWord);
    case 'f':
      word_ = "alse";
      return to(State::kWord);
    case 'n':
      word_ = "ull";
      return to(State::kWord);
    default:
      return is_json_digit(c) ? to(State::kInteger) : fail("a value was expected");
  }
}

JsonMachine::Step JsonMachine::to_string(bool name) {
  is_name_ = name;
  string_begin_ = size_;
  return to(State::kString);
}

JsonMachine::Step JsonMachine::end_value() {
  state_ = State::kAfterValue;
  return open_.empty() ? Step::kDone : Step::kMore;
}

JsonMachine::Step JsonMachine::close() {
  open_.pop_back();
  return end_value();
}

JsonMachine::Step JsonMachine::string(char c) {
  if (c == '"') return is_name_ ? to(State::kColon) : end_value();
  if (c == '\\') return to(State::kEscape);
  if (static_cast<unsigned char>(c) < 0x20) return fail("a control character stands unescaped in a string");
  return Step::kMore;
}

JsonMachine::Step JsonMachine::escape(char c) {
  if (c == 'u') {
    hex_digits_ = 4;
    return to(State::kHex);
  }
  if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
    return fail("there is no such escape in a string");
  }
  return to(State::kString);
}

JsonMachine::Step JsonMachine::hex(char c) {
  if (!std::isxdigit(static_cast<unsigned char>(c))) return fail("a hexadecimal digit was expected");
  return to(--hex_digits_ == 0 ? State::kString : State::kHex);
}

JsonMachine::Step JsonMachine::word(char c) {
  if (c != *word_) return fail("a value was expected");
  return *++word_ == '\0' ? end_value() : Step::kMore;
}

JsonMachine::Step JsonMachine::number(char c) {
  bool digit = is_json_digit(c);
  bool exponent = c == 'e' || c == 'E';
  switch (state_) {
    case State::kMinus:
      if (!digit) return fail("a digit was expected");
      return to(c == '0' ? State::kZero : State::kInteger);
    case State::kPoint:
      return digit ? to(State::kFraction) : fail("a digit was expected");
    case State::kExponent:
      if (c == '+' || c == '-') return to(State::kExponentSign);
      [[fallthrough]];
    case State::kExponentSign:
      return digit ? to(State::kExponentDigits) : fail("a digit was expected");
    case State::kZero:
    case State::kInteger:
      if (c == '.') return to(State::kPoint);
      [[fallthrough]];
    case State::kFraction:
      if (exponent) return to(State::kExponent);
      [[fallthrough]];
    default:
      if (digit && state_ != State::kZero) return Step::kMore;
  }
  if (end_value() == Step::kDone) return Step::kBefore;
  return structure(c);
}

}  // namespace stoker
