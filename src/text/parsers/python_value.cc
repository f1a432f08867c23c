#include "text/parsers/python_value.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/json_string.h"
#include "base/utf8.h"
#include "text/json_text.h"

namespace stoker {
namespace {

constexpr int kDeepestValue = 64;

bool is_python_word_byte(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '_' || byte >= 0x80;
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// 0x1F, 0o17 and 0b11; Python has no upper bound, this has 64 bits.
std::optional<std::string> prefixed_integer(std::string_view digits) {
  int base = digits[1] == 'x' || digits[1] == 'X' ? 16 : digits[1] == 'o' || digits[1] == 'O' ? 8 : 2;
  uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  auto [stop, error] = std::from_chars(digits.data() + 2, end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return std::to_string(value);
}

bool is_surrogate(char32_t code, char32_t from) { return code >= from && code < from + 0x400; }

}  // namespace

std::optional<std::string> python_number_to_json(std::string_view number) {
  std::string sign;
  while (number.starts_with('-') || number.starts_with('+')) {
    if (number[0] == '-') sign = sign.empty() ? "-" : "";
    number.remove_prefix(1);
  }
  std::string digits;
  for (size_t i = 0; i < number.size(); ++i) {
    if (number[i] != '_') {
      digits.push_back(number[i]);
    } else if (i == 0 || i + 1 == number.size() || number[i - 1] == '_') {
      return std::nullopt;
    }
  }
  if (digits.size() > 2 && digits[0] == '0' &&
      std::string_view("xXoObB").find(digits[1]) != std::string_view::npos) {
    std::optional<std::string> integer = prefixed_integer(digits);
    return integer ? std::optional(sign + *integer) : std::nullopt;
  }
  size_t exponent = digits.find_first_of("eE");
  std::string tail = exponent == std::string::npos ? "" : digits.substr(exponent);
  std::string head = digits.substr(0, exponent);
  size_t point = head.find('.');
  if (point != std::string::npos) {
    if (head.size() == 1) return std::nullopt;
    if (point == 0) head.insert(0, "0");
    if (head.ends_with('.')) head += "0";
  }
  if (head.size() > 1 && head.find_first_not_of('0') == std::string::npos) head = "0";  // 00 is Python's 0
  std::string json = sign + head + tail;
  JsonScan scan = scan_json(json + ' ');
  bool whole = scan.status == JsonScan::Status::kComplete && scan.position == json.size();
  return whole && (all_digits(json.substr(json.size() - 1))) ? std::optional(json) : std::nullopt;
}

bool PythonValueReader::fail(std::string problem) {
  position_ = scan_.in.at();
  problem_ = std::move(problem);
  return false;
}

bool PythonValueReader::cut_off() {
  cut_ = true;
  return fail("the text ends in the middle of a value");
}

void PythonValueReader::write(std::string_view json) {
  if (buffered_ > 0) {
    buffer_ += json;
  } else {
    scan_.out.add_arguments(json);
  }
}

void PythonValueReader::write_text(std::string_view text) {
  if (text.empty()) return;
  std::string quoted;
  append_json_string(quoted, text, InvalidUtf8::kKeep);
  write(std::string_view(quoted).substr(1, quoted.size() - 2));
}

Reading<bool> PythonValueReader::value(int depth) {
  if (depth > kDeepestValue) co_return fail("the nesting is too deep");
  int byte = co_await skip_blanks(scan_);
  switch (byte) {
    case TurnInput::kEnd:
      co_return cut_off();
    case '"':
    case '\'':
      co_return co_await strings("");
    case '[':
      scan_.in.skip(1);
      co_return co_await sequence(']', depth);
    case '(':
      scan_.in.skip(1);
      co_return co_await sequence(')', depth);
    case '{':
      scan_.in.skip(1);
      co_return co_await braces(depth);
    default:
      co_return co_await word();
  }
}

// A word: the longest run that a number, a name or a string's prefix can be.
Reading<std::string> PythonValueReader::take_word() {
  std::string word;
  for (;;) {
    int byte = co_await scan_.in.byte();
    bool hexadecimal = word.find_first_of("xX") != std::string::npos;
    bool after_e = !word.empty() && (word.back() == 'e' || word.back() == 'E') && !hexadecimal &&
                   word.find_first_of("0123456789") != std::string::npos;
    bool sign =
        (byte == '+' || byte == '-') && (after_e || word.find_first_not_of("+-") == std::string::npos);
    if (!is_python_word_byte(byte) && byte != '.' && !sign) co_return word;
    word.push_back(static_cast<char>(byte));
    scan_.in.skip(1);
  }
}

Reading<bool> PythonValueReader::word() {
  size_t begin = scan_.in.at();
  std::string word = co_await take_word();
  int byte = co_await scan_.in.byte();
  if (byte == '"' || byte == '\'') co_return co_await strings(std::move(word));
  if (byte == TurnInput::kEnd) co_return cut_off();
  std::string_view json = word == "True" || word == "true"     ? "true"
                          : word == "False" || word == "false" ? "false"
                          : word == "None" || word == "null"   ? "null"
                                                               : "";
  if (!json.empty()) {
    write(json);
    co_return true;
  }
  if (std::optional<std::string> number = python_number_to_json(word)) {
    write(*number);
    co_return true;
  }
  scan_.in.seek(begin);
  co_return fail(
      "a literal value was expected (a string in quotes, a number, True, False, None, a list or a dict)");
}

Reading<bool> PythonValueReader::strings(std::string prefix) {
  write("\"");
  for (;;) {
    bool raw = prefix == "r" || prefix == "R";
    if (!raw && !prefix.empty() && prefix != "u" && prefix != "U") {
      co_return fail(fmt::format("strings with the prefix {} cannot be read; give a plain string",
                                 Json(prefix.substr(0, 8)).dump()));
    }
    char quote = static_cast<char>(co_await scan_.in.byte());
    if (!co_await string_part(raw, quote)) co_return false;
    // Strings side by side are one string.
    size_t behind = scan_.in.at();
    int byte = co_await skip_blanks(scan_);
    prefix.clear();
    if (byte == 'r' || byte == 'R') {
      scan_.in.skip(1);
      prefix = static_cast<char>(byte);
      byte = co_await scan_.in.byte();
    }
    if (byte != '"' && byte != '\'') {
      scan_.in.seek(behind);
      write("\"");
      co_return true;
    }
  }
}

// One quoted string, from its first quote.
Reading<bool> PythonValueReader::string_part(bool raw, char quote) {
  const std::string triple_tag(3, quote);
  const std::string_view triple[] = {triple_tag};
  const std::string_view single[] = {std::string_view(triple_tag).substr(0, 1)};
  bool is_triple = co_await take_tag(scan_, triple) >= 0;
  if (!is_triple) scan_.in.skip(1);
  std::string text;
  for (;;) {
    int byte = co_await scan_.in.byte();
    if (byte == TurnInput::kEnd) {
      write_text(text);
      co_return cut_off();
    }
    if (byte == quote && co_await take_tag(scan_, is_triple ? triple : single) >= 0) break;
    if (byte == '\n' && !is_triple) {
      write_text(text);
      co_return fail("a line break stands unescaped in a string");
    }
    if (byte == '\\') {
      if (!co_await escape(text, raw)) {
        write_text(text);
        co_return false;
      }
    } else {
      text.push_back(static_cast<char>(byte));
      scan_.in.skip(1);
    }
    if (scan_.in.at() == scan_.in.size() || text.size() >= 4096) {
      write_text(text);
      text.clear();
    }
  }
  write_text(text);
  co_return true;
}

// At a backslash.
Reading<bool> PythonValueReader::escape(std::string& text, bool raw) {
  scan_.in.skip(1);
  int byte = co_await scan_.in.byte();
  if (byte == TurnInput::kEnd) co_return cut_off();
  scan_.in.skip(1);
  constexpr std::string_view kNames = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  size_t known = raw ? std::string_view::npos : kNames.find(static_cast<char>(byte));
  if (known != std::string_view::npos) {
    text.push_back(kMeanings[known]);
    co_return true;
  }
  if (!raw && byte == '\n') co_return true;
  if (!raw && (byte == 'x' || byte == 'u' || byte == 'U')) {
    co_return co_await hex_escape(text, byte == 'x' ? 2 : byte == 'u' ? 4 : 8);
  }
  if (!raw && byte == 'N') co_return fail("\\N escapes cannot be read; give the character itself");
  if (!raw && byte >= '0' && byte <= '7') {
    char32_t code = static_cast<char32_t>(byte - '0');
    for (int digits = 1; digits < 3; ++digits) {
      int next = co_await scan_.in.byte();
      if (next < '0' || next > '7') break;
      code = code * 8 + static_cast<char32_t>(next - '0');
      scan_.in.skip(1);
    }
    append_utf8(text, code);
    co_return true;
  }
  text.push_back('\\');
  text.push_back(static_cast<char>(byte));
  co_return true;
}

Reading<bool> PythonValueReader::hex_escape(std::string& text, int digits) {
  char32_t first = 0;
  for (bool second_half = false;; second_half = true) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      int byte = co_await scan_.in.byte();
      if (byte == TurnInput::kEnd) co_return cut_off();
      int digit = byte >= '0' && byte <= '9'                 ? byte - '0'
                  : (byte | 32) >= 'a' && (byte | 32) <= 'f' ? (byte | 32) - 'a' + 10
                                                             : -1;
      if (digit < 0) co_return fail("a hexadecimal digit was expected");
      code = code * 16 + static_cast<char32_t>(digit);
      scan_.in.skip(1);
    }
    if (second_half) {
      if (!is_surrogate(code, 0xDC00)) co_return fail("an escape is half of a surrogate pair");
      append_utf8(text, 0x10000 + ((first - 0xD800) << 10) + (code - 0xDC00));
      co_return true;
    }
    first = code;
    const std::string_view next[] = {"\\u"};
    if (digits != 4 || !is_surrogate(code, 0xD800) || co_await take_tag(scan_, next) < 0) break;
  }
  if (first > 0x10FFFF || (first >= 0xD800 && first < 0xE000)) co_return fail("an escape names no character");
  append_utf8(text, first);
  co_return true;
}

// A list, tuple or parenthesis behind its opening bracket.
Reading<bool> PythonValueReader::sequence(char closing, int depth) {
  bool tuple = closing == ')';  // one value in parentheses without a comma is that value
  size_t mark = buffer_.size();
  buffered_ += tuple ? 1 : 0;
  if (!tuple) write("[");
  bool comma = false;
  for (size_t count = 0;; ++count) {
    int byte = co_await skip_blanks(scan_);
    if (byte == closing) {
      comma = comma || count == 0;
      break;
    }
    if (count > 0) write(", ");
    if (!co_await value(depth + 1)) co_return false;
    byte = co_await skip_blanks(scan_);
    if (byte == TurnInput::kEnd) co_return cut_off();
    if (byte == closing) break;
    if (byte != ',') co_return fail("a comma or a closing bracket was expected");
    scan_.in.skip(1);
    comma = true;
  }
  scan_.in.skip(1);
  if (!tuple) {
    write("]");
    co_return true;
  }
  if (comma) {
    buffer_.insert(mark, "[");
    buffer_ += "]";
  }
  if (--buffered_ == 0) scan_.out.add_arguments(std::exchange(buffer_, ""));
  co_return true;
}

// A dict behind its opening bracket.
Reading<bool> PythonValueReader::braces(int depth) {
  write("{");
  for (size_t count = 0;; ++count) {
    int byte = co_await skip_blanks(scan_);
    if (byte == '}') break;
    if (count > 0) write(", ");
    if (byte == TurnInput::kEnd) co_return cut_off();
    if (byte != '"' && byte != '\'') co_return fail("a key of a dict must be a string in quotes");
    if (!co_await strings("")) co_return false;
    byte = co_await skip_blanks(scan_);
    if (byte == TurnInput::kEnd) co_return cut_off();
    if (byte != ':') co_return fail("a colon was expected");
    scan_.in.skip(1);
    write(": ");
    if (!co_await value(depth + 1)) co_return false;
    byte = co_await skip_blanks(scan_);
    if (byte == TurnInput::kEnd) co_return cut_off();
    if (byte == '}') break;
    if (byte != ',') co_return fail("a comma or a closing bracket was expected");
    scan_.in.skip(1);
  }
  scan_.in.skip(1);
  write("}");
  co_return true;
}

}  // namespace stoker
