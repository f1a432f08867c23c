#include "text/json_text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "base/json_string.h"

namespace stoker {
namespace {

// Python's repr of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
void append_float(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char buffer[64];
  char* end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view scientific(buffer, end - buffer);
  int exponent = std::atoi(scientific.data() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) {
    out += scientific;
    return;
  }
  char fixed[64];
  end = std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed).ptr;
  std::string_view text(fixed, end - fixed);
  out += text;
  if (text.find('.') == std::string_view::npos) out += ".0";
}

void append_value(std::string& out, const Json& value) {
  if (value.is_string()) {
    append_json_string(out, value.as_string(), InvalidUtf8::kKeep);
  } else if (value.is_double()) {
    append_float(out, value.as_double());
  } else if (value.is_array()) {
    out.push_back('[');
    std::string_view separator = "";
    for (const Json& element : value.as_array()) {
      out += separator;
      append_value(out, element);
      separator = ", ";
    }
    out.push_back(']');
  } else if (value.is_object()) {
    out.push_back('{');
    std::string_view separator = "";
    for (const auto& [name, member] : value.as_object()) {
      out += separator;
      append_json_string(out, name, InvalidUtf8::kKeep);
      out += ": ";
      append_value(out, member);
      separator = ", ";
    }
    out.push_back('}');
  } else {
    out += value.dump();
  }
}

// One pass over a JSON value, with the open brackets on a stack of its own.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  JsonScan scan() {
    State state = State::kValue;
    for (;;) {
      skip_blanks(state == State::kValue && open_.empty());
      if (at_ == text_.size())
        return {JsonScan::Status::kIncomplete, at_, "the text ends in the middle of a value"};
      if (!step(state)) return failure_;
      if (state == State::kAfterValue && open_.empty()) return {JsonScan::Status::kComplete, at_, ""};
    }
  }

 private:
  enum class State { kValue, kFirstElement, kFirstName, kName, kColon, kAfterValue };
  static constexpr size_t kDeepest = 128;

  void skip_blanks(bool at_start) {
    if (at_start) return;
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  bool fail(const char* reason) {
    failure_ = {JsonScan::Status::kInvalid, at_, reason};
    return false;
  }
  bool cut() {
    failure_ = {JsonScan::Status::kIncomplete, text_.size(), "the text ends in the middle of a value"};
    return false;
  }

  // Consumes one part of the value and moves on to the next state; false: failure_ is the result.
  bool step(State& state) {
    char c = text_[at_];
    switch (state) {
      case State::kFirstElement:
        if (c == ']') return close(state);
        [[fallthrough]];
      case State::kValue:
        return value(state);
      case State::kFirstName:
        if (c == '}') return close(state);
        [[fallthrough]];
      case State::kName:
        if (c != '"') return fail("a member name in double quotes was expected");
        state = State::kColon;
        return string();
      case State::kColon:
        if (c != ':') return fail("a colon was expected");
        ++at_;
        state = State::kValue;
        return true;
      case State::kAfterValue:
        if (c == (open_.back() == '{' ? '}' : ']')) return close(state);
        if (c != ',') return fail("a comma or a closing bracket was expected");
        ++at_;
        state = open_.back() == '{' ? State::kName : State::kValue;
        return true;
    }
    return fail("");
  }

  bool close(State& state) {
    ++at_;
    open_.pop_back();
    state = State::kAfterValue;
    return true;
  }

  bool value(State& state) {
    char c = text_[at_];
    if (c == '{' || c == '[') {
      if (open_.size() == kDeepest) return fail("the nesting is too deep");
      open_.push_back(c);
      ++at_;
      state = c == '{' ? State::kFirstName : State::kFirstElement;
      return true;
    }
    state = State::kAfterValue;
    if (c == '"') return string();
    if (c == '-' || (c >= '0' && c <= '9')) return number();
    for (std::string_view word : {"true", "false", "null"}) {
      if (c == word[0]) return literal(word);
    }
    return fail("a value was expected");
  }

  bool literal(std::string_view word) {
    for (char expected : word) {
      if (at_ == text_.size()) return cut();
      if (text_[at_] != expected) return fail("a value was expected");
      ++at_;
    }
    return true;
  }

  bool string() {
    for (++at_; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20)
        return fail("a control character stands unescaped in a string");
      if (c == '\\' && !escape()) return false;
    }
    return cut();
  }

  // Leaves at_ on the last character of the escape.
  bool escape() {
    if (++at_ == text_.size()) return cut();
    if (text_[at_] == 'u') {
      for (int i = 0; i < 4; ++i) {
        if (++at_ == text_.size()) return cut();
        if (!std::isxdigit(static_cast<unsigned char>(text_[at_])))
          return fail("a hexadecimal digit was expected");
      }
      return true;
    }
    if (std::string_view("\"\\/bfnrt").find(text_[at_]) == std::string_view::npos) {
      return fail("there is no such escape in a string");
    }
    return true;
  }

  bool digits() {
    if (at_ == text_.size()) return cut();
    if (text_[at_] < '0' || text_[at_] > '9') return fail("a digit was expected");
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return true;
  }

  bool number() {
    if (text_[at_] == '-') ++at_;
    if (at_ < text_.size() && text_[at_] == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (!digits()) return false;
    }
    return at_ < text_.size() || cut();
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string open_;  // the brackets around at_
  JsonScan failure_;
};

}  // namespace

std::string python_json(const Json& value) {
  std::string out;
  append_value(out, value);
  return out;
}

JsonScan scan_json(std::string_view text) { return JsonScanner(text).scan(); }

namespace {

// Objects of up to this many members are searched from their start: quicker than a table.
constexpr size_t kFewMembers = 16;

Json members_without_duplicates(const Json::Object& members) {
  Json::Object out;
  out.reserve(members.size());
  std::unordered_map<std::string_view, size_t> places;
  for (const auto& [name, member] : members) {
    size_t place = out.size();
    if (members.size() <= kFewMembers) {
      for (size_t i = 0; i < out.size() && place == out.size(); ++i) {
        if (out[i].first == name) place = i;
      }
    } else {
      place = places.emplace(name, out.size()).first->second;
    }
    if (place == out.size()) {
      out.emplace_back(name, without_duplicates(member));
    } else {
      out[place].second = without_duplicates(member);
    }
  }
  return Json::object(std::move(out));
}

}  // namespace

Json without_duplicates(const Json& value) {
  if (value.is_object()) return members_without_duplicates(value.as_object());
  if (!value.is_array()) return value;
  Json out = Json::array();
  for (const Json& element : value.as_array()) out.as_array().push_back(without_duplicates(element));
  return out;
}

}  // namespace stoker
