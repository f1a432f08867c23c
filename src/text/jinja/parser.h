#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/syntax.h"

namespace stoker::jinja {

// The expressions of a template; StatementParser adds the tags.
class ExpressionParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[noreturn]] void fail(const std::string& message) const { throw SyntaxError{message, current().place}; }

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is_operator(std::string_view text) const {
    return current().kind == TokenKind::kOperator && current().text == text;
  }
  bool is_name(std::string_view text) const {
    return current().kind == TokenKind::kName && current().text == text;
  }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  std::string describe_current() const;
  int identifier(const std::string& name);
  size_t position() const { return at_; }
  // Whether the name stands between a position and here.
  bool mentions(size_t from, std::string_view name) const;

  // "a, b" is a tuple. `with_condition`: "x if y" belongs to it.
  ExpressionPtr parse_tuple(bool with_condition = true);
  ExpressionPtr parse_expression();  // with "if else"
  ExpressionPtr parse_or();
  // Filters that follow; `inner` null in a filter block, which starts with the first filter's name.
  ExpressionPtr parse_filters(ExpressionPtr inner, bool starts_inside);
  ExpressionPtr parse_call(ExpressionPtr callee);
  // A name, with postfixes and filters.
  ExpressionPtr parse_unary(bool with_filters = true);

  // Counts nesting for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.fail("the nesting is too deep");
    }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

  Names names_;

 private:
  std::unique_ptr<Expression> make(ExpressionKind kind) const;
  // Both refuse a tree that grows too deep.
  void deepen(Expression& parent, const Expression& child) const;
  void adopt(Expression& parent, ExpressionPtr child) const;
  ExpressionPtr unary(ExpressionKind kind, ExpressionPtr inner, Place place) const;
  ExpressionPtr binary(Operation operation, ExpressionPtr left, ExpressionPtr right, Place place) const;
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  bool comparison_operator(Operation& operation);
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_primary();
  ExpressionPtr parse_named_primary();
  ExpressionPtr parse_parentheses();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr inner);
  ExpressionPtr parse_subscript(ExpressionPtr inner);
  ExpressionPtr parse_subscript_part();
  ExpressionPtr parse_filter_expression(ExpressionPtr inner);
  ExpressionPtr parse_test(ExpressionPtr inner);
  void parse_arguments(Expression& call);
  bool ends_tuple() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::unordered_map<std::string, int> identifiers_;
};

}  // namespace stoker::jinja
