#include "environment/calculator/expression.h"

#include <fmt/format.h>

#include <string>

#include "environment/ascii.h"

namespace stoker {
namespace {

struct Spelling {
  std::string_view text;
  char symbol;
};
// The longest spelling first where one starts another.
constexpr Spelling kSymbols[] = {{"**", '^'}, {"^", '^'}, {"+", '+'}, {"-", '-'}, {"*", '*'}, {"/", '/'},
                                 {"(", '('},  {")", ')'}, {"×", '*'}, {"·", '*'}, {"÷", '/'}, {"−", '-'}};

// A recursive descent over the text; `depth` bounds the recursion.
class Evaluator {
 public:
  explicit Evaluator(std::string_view text) : text_(text) { advance(); }

  Result<CalculatorNumber> evaluate() {
    Result<CalculatorNumber> result = sum(0);
    if (result && symbol_ != kEnd) return unexpected();
    return result;
  }

 private:
  static constexpr char kEnd = '\0';
  static constexpr char kNumber = '0';
  static constexpr char kUnknown = '?';

  Result<CalculatorNumber> sum(int depth) {
    Result<CalculatorNumber> left = product(depth);
    while (left && (symbol_ == '+' || symbol_ == '-')) {
      bool plus = symbol_ == '+';
      advance();
      Result<CalculatorNumber> right = product(depth);
      if (!right) return right;
      left = plus ? add(*left, *right) : subtract(*left, *right);
    }
    return left;
  }

  Result<CalculatorNumber> product(int depth) {
    Result<CalculatorNumber> left = sign(depth);
    while (left && (symbol_ == '*' || symbol_ == '/')) {
      bool times = symbol_ == '*';
      advance();
      Result<CalculatorNumber> right = sign(depth);
      if (!right) return right;
      left = times ? multiply(*left, *right) : divide(*left, *right);
    }
    return left;
  }

  Result<CalculatorNumber> sign(int depth) {
    bool negative = false;
    while (symbol_ == '+' || symbol_ == '-') {
      negative = negative != (symbol_ == '-');
      advance();
    }
    Result<CalculatorNumber> value = power_of(depth);
    if (value && negative) return value->negated();
    return value;
  }

  Result<CalculatorNumber> power_of(int depth) {
    Result<CalculatorNumber> base = operand(depth);
    if (!base || symbol_ != '^') return base;
    advance();
    if (depth == kMaxExpressionDepth) return too_deep();
    Result<CalculatorNumber> exponent = sign(depth + 1);
    if (!exponent) return exponent;
    return power(*base, *exponent);
  }

  Result<CalculatorNumber> operand(int depth) {
    if (symbol_ == kNumber) {
      Result<CalculatorNumber> value = CalculatorNumber::parse(text_.substr(start_, end_ - start_));
      advance();
      return value;
    }
    if (symbol_ != '(') return unexpected();
    if (depth == kMaxExpressionDepth) return too_deep();
    advance();
    Result<CalculatorNumber> value = sum(depth + 1);
    if (!value) return value;
    if (symbol_ == kEnd) return syntax("missing ')' at the end");
    if (symbol_ != ')') return unexpected();
    advance();
    return value;
  }

  // Reads the next symbol or number into symbol_, start_ and end_.
  void advance() {
    while (end_ < text_.size() && is_ascii_blank(text_[end_])) ++end_;
    start_ = end_;
    if (start_ == text_.size()) {
      symbol_ = kEnd;
      return;
    }
    if (scan_number()) {
      symbol_ = kNumber;
      return;
    }
    for (const Spelling& spelling : kSymbols) {
      if (text_.substr(start_).starts_with(spelling.text)) {
        symbol_ = spelling.symbol;
        end_ = start_ + spelling.text.size();
        return;
      }
    }
    symbol_ = kUnknown;
  }

  void skip_digits(size_t& at) const {
    while (at < text_.size() && is_ascii_digit(text_[at])) ++at;
  }

  bool scan_number() {
    size_t at = start_;
    skip_digits(at);
    size_t digits = at - start_;
    if (at < text_.size() && text_[at] == '.') {
      size_t fraction = ++at;
      skip_digits(at);
      digits += at - fraction;
    }
    if (digits == 0) return false;
    if (at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
      size_t exponent = at + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      size_t exponent_end = exponent;
      skip_digits(exponent_end);
      if (exponent_end > exponent) at = exponent_end;
    }
    end_ = at;
    return true;
  }

  static Failure syntax(std::string message) { return {FailureClass::kTool, "syntax", std::move(message)}; }

  static Failure too_deep() {
    return {FailureClass::kTool, "too_deep", fmt::format("more than {} levels", kMaxExpressionDepth)};
  }

  // What stands where something else was expected.
  Failure unexpected() const {
    if (symbol_ == kEnd) return syntax(text_.empty() ? "no expression" : "the expression ends too early");
    size_t position = 1;
    for (char c : text_.substr(0, start_)) position += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    std::string_view found = text_.substr(start_, symbol_ == kUnknown ? 1 : end_ - start_);
    auto first = static_cast<unsigned char>(found[0]);
    if (symbol_ == kUnknown && (first < 0x20 || first >= 0x7F)) {
      return syntax(fmt::format("unexpected character at position {}", position));
    }
    if (symbol_ == kNumber) return syntax(fmt::format("unexpected number at position {}", position));
    return syntax(fmt::format("unexpected '{}' at position {}", found, position));
  }

  std::string_view text_;
  size_t start_ = 0;  // of the current symbol
  size_t end_ = 0;    // past it
  char symbol_ = kEnd;
};

}  // namespace

Result<CalculatorNumber> evaluate_expression(std::string_view text) {
  if (text.size() > kMaxExpressionBytes) {
    return Failure{FailureClass::kTool, "too_long", fmt::format("more than {} bytes", kMaxExpressionBytes)};
  }
  return Evaluator(text).evaluate();
}

}  // namespace stoker
