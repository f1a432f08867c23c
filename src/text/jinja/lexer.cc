#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/characters.h"
#include "text/unicode.h"

namespace stoker::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

std::string with_plain_line_ends(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text.push_back(source[i]);
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_name_byte(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_line_ends(source)), text_(source_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) data();
    add(TokenKind::kEnd, "", at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, size_t at) { throw SyntaxError{message, place_of(at)}; }

  Place place_of(size_t at) {
    // Places are asked for in ascending order but for errors.
    if (at < place_at_) {
      place_at_ = 0;
      place_ = {1, 1};
    }
    for (; place_at_ < at; ++place_at_) {
      char c = text_[place_at_];
      if (c == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
        ++place_.column;
      }
    }
    return place_;
  }

  void add(TokenKind kind, std::string text, size_t at) {
    tokens_.push_back({kind, std::move(text), place_of(at)});
  }

  bool at(std::string_view word, size_t position) const {
    return text_.substr(position, word.size()) == word;
  }

  size_t skip_blanks(size_t position) const {
    while (position < text_.size()) {
      Utf8Step step = utf8_step(text_.substr(position));
      if (!step.valid || !is_python_space(step.code_point)) break;
      position += step.size;
    }
    return position;
  }

  // Text up to the next tag, and the tag.
  void data() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= text_.size()) {
        add_data(at_, text_.size());
        at_ = text_.size();
        return;
      }
      char next = text_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    bool print = text_[tag + 1] == '{';
    char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    bool signed_tag = sign == '-' || (sign == '+' && !print);
    add_data(at_, data_end(tag, print, signed_tag ? sign : ' '));
    at_ = tag + (signed_tag ? 3 : 2);
    if (text_[tag + 1] == '#') return comment(tag);
    if (!print && raw(tag)) return;
    add(print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "", tag);
    inside(print, tag);
  }

  // Where the text before a tag ends once blanks are trimmed.
  size_t data_end(size_t tag, bool print, char sign) const {
    std::string_view text = text_.substr(at_, tag - at_);
    if (sign == '-') return at_ + stripped(text, nullptr, false, true).end;
    if (sign == '+' || print) return tag;
    size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return tag;
    size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    return stripped(text.substr(line), nullptr, true, false).begin == text.size() - line ? at_ + line : tag;
  }

  void add_data(size_t begin, size_t end) {
    if (end > begin) add(TokenKind::kData, std::string(text_.substr(begin, end - begin)), begin);
  }

  // Passes what may follow the end of a block or comment at `position` of length `size`, by its sign.
  void leave(size_t begin, size_t position, char sign, bool trims_newline) {
    at_ = sign == '-' ? skip_blanks(position) : position;
    if (sign != '-' && sign != '+' && trims_newline && at_ < text_.size() && text_[at_] == '\n') ++at_;
    line_starting_ = at_ > begin && text_[at_ - 1] == '\n';
  }

  void comment(size_t begin) {
    size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) fail("a comment is not closed", begin);
    char sign = end > at_ ? text_[end - 1] : ' ';
    leave(begin, end + 2, sign, true);
  }

  // A whole raw block, when one begins here.
  bool raw(size_t begin) {
    size_t position = skip_blanks(at_);
    if (!at("raw", position)) return false;
    position = skip_blanks(position + 3);
    bool dash = at("-%}", position);
    if (!dash && !at("%}", position)) return false;
    at_ = dash ? skip_blanks(position + 3) : position + 2;
    line_starting_ = text_[at_ - 1] == '\n';
    for (size_t tag = text_.find("{%", at_); tag != std::string_view::npos; tag = text_.find("{%", tag + 2)) {
      char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
      size_t word = skip_blanks(tag + (sign == '-' || sign == '+' ? 3 : 2));
      if (!at("endraw", word)) continue;
      word = skip_blanks(word + 6);
      char end_sign = word < text_.size() ? text_[word] : ' ';
      if (end_sign == '-' || end_sign == '+') ++word;
      if (!at("%}", word)) continue;
      add_data(at_, data_end(tag, false, sign));
      leave(tag, word + 2, end_sign, true);
      return true;
    }
    fail("a raw block is not closed by endraw", begin);
  }

  void inside(bool print, size_t begin) {
    std::string brackets;
    for (;;) {
      at_ = skip_blanks(at_);
      if (at_ >= text_.size()) fail(print ? "a '{{' is not closed" : "a '{%' is not closed", begin);
      if (brackets.empty() && end_of_tag(print)) return;
      char c = text_[at_];
      if (is_ascii_digit(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string(c);
      } else if (!name()) {
        operation(brackets);
      }
    }
  }

  bool end_of_tag(bool print) {
    std::string_view end = print ? "}}" : "%}";
    char sign = text_[at_];
    size_t begin = at_;
    bool is_signed = (sign == '-' || (sign == '+' && !print)) && at(end, at_ + 1);
    if (!is_signed && !at(end, at_)) return false;
    add(print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "", begin);
    leave(begin, at_ + (is_signed ? 3 : 2), is_signed ? sign : ' ', !print);
    return true;
  }

  bool name() {
    size_t end = at_;
    while (end < text_.size()) {
      Utf8Step step = utf8_step(text_.substr(end));
      char c = text_[end];
      bool fits = is_name_byte(c) || (end > at_ && is_ascii_digit(c)) ||
                  (step.valid && step.code_point >= 0x80 && is_word(step.code_point));
      if (!fits) break;
      end += step.size;
    }
    if (end == at_) return false;
    add(TokenKind::kName, std::string(text_.substr(at_, end - at_)), at_);
    at_ = end;
    return true;
  }

  size_t digits(size_t position) const {
    while (position < text_.size() &&
           (is_ascii_digit(text_[position]) ||
            (text_[position] == '_' && position > 0 && position + 1 < text_.size() &&
             is_ascii_digit(text_[position - 1]) && is_ascii_digit(text_[position + 1]))))
      ++position;
    return position;
  }

  void number() {
    size_t end = digits(at_);
    TokenKind kind = TokenKind::kInteger;
    // "a.0.1" are two subscripts, no float.
    bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    if (!after_dot && end + 1 < text_.size() && text_[end] == '.' && is_ascii_digit(text_[end + 1])) {
      kind = TokenKind::kFloat;
      end = digits(end + 1);
    }
    if (!after_dot && end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_ascii_digit(text_[exponent])) {
        kind = TokenKind::kFloat;
        end = digits(exponent);
      }
    }
    std::string text(text_.substr(at_, end - at_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    if (kind == TokenKind::kInteger && text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of('0') != std::string::npos)
      fail("a number must not begin with 0", at_);
    if (end < text_.size() && is_name_byte(text_[end])) fail("a number runs into a name", at_);
    add(kind, std::move(text), at_);
    at_ = end;
  }

  void string(char quote) {
    size_t begin = at_++;
    std::string value;
    for (;; ++at_) {
      if (at_ >= text_.size()) fail("a string is not closed", begin);
      char c = text_[at_];
      if (c == quote) break;
      if (c != '\\') {
        value.push_back(c);
        continue;
      }
      if (++at_ >= text_.size()) fail("a string is not closed", begin);
      escape(value);
    }
    ++at_;
    add(TokenKind::kString, std::move(value), begin);
  }

  // Python's escapes of a string literal; at_ stands on the character after the backslash, and is left on the
  // last one of the escape.
  void escape(std::string& value) {
    char c = text_[at_];
    static constexpr std::string_view kSimple = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    for (size_t i = 0; i < kSimple.size(); i += 2) {
      if (kSimple[i] == c) return value.push_back(kSimple[i + 1]);
    }
    if (c == '\n') return;
    if (c == 'x' || c == 'u' || c == 'U') return hexadecimal(value, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (c == 'N') fail("characters by name are not supported; write \\u and the code point", at_);
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t end = std::min(at_ + 3, text_.size());
      for (; at_ < end && text_[at_] >= '0' && text_[at_] <= '7'; ++at_) code = code * 8 + (text_[at_] - '0');
      --at_;
      return append_utf8(value, code);
    }
    value.push_back('\\');
    value.push_back(c);
  }

  void hexadecimal(std::string& value, size_t count) {
    char32_t code = 0;
    for (size_t i = 0; i < count; ++i) {
      char c = ++at_ < text_.size() ? text_[at_] : ' ';
      int digit = is_ascii_digit(c)      ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
      if (digit < 0) fail("an escape needs more hexadecimal digits", std::min(at_, text_.size()));
      code = code * 16 + static_cast<char32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail("an escape is no character", at_);
    append_utf8(value, code);
  }

  void operation(std::string& brackets) {
    for (std::string_view candidate : kOperators) {
      if (!at(candidate, at_)) continue;
      bracket(candidate[0], brackets);
      add(TokenKind::kOperator, std::string(candidate), at_);
      at_ += candidate.size();
      return;
    }
    std::string_view rest = text_.substr(at_);
    fail(fmt::format("'{}' is not part of the language", to_valid_utf8(rest.substr(0, utf8_step(rest).size))),
         at_);
  }

  void bracket(char c, std::string& brackets) {
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets.empty() || brackets.back() != c) fail(fmt::format("'{}' closes nothing", c), at_);
    brackets.pop_back();
  }

  std::string source_;
  std::string_view text_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
  size_t place_at_ = 0;
  Place place_{1, 1};
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace stoker::jinja
