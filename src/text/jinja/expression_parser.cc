#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/filters.h"
#include "text/jinja/parser.h"
#include "text/jinja/tests.h"

namespace stoker::jinja {

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  advance();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  advance();
  return true;
}

std::string ExpressionParser::describe_current() const {
  switch (current().kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + to_valid_utf8(current().text.substr(0, 60)) + "'";
  }
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail(fmt::format("'{}' was expected, found {}", text, describe_current()));
}

std::string ExpressionParser::expect_name() {
  if (current().kind != TokenKind::kName)
    fail(fmt::format("a name was expected, found {}", describe_current()));
  std::string name = current().text;
  advance();
  return name;
}

int ExpressionParser::identifier(const std::string& name) {
  auto [place, is_new] = identifiers_.emplace(name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

bool ExpressionParser::mentions(size_t from, std::string_view name) const {
  auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(from);
  return std::any_of(begin, tokens_.begin() + static_cast<std::ptrdiff_t>(at_), [&](const Token& token) {
    return token.kind == TokenKind::kName && token.text == name;
  });
}

std::unique_ptr<Expression> ExpressionParser::make(ExpressionKind kind) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->place = current().place;
  return expression;
}

void ExpressionParser::deepen(Expression& parent, const Expression& child) const {
  parent.depth = std::max(parent.depth, child.depth + 1);
  if (parent.depth > kMaxExpressionDepth) fail("the expression is too deep");
}

void ExpressionParser::adopt(Expression& parent, ExpressionPtr child) const {
  if (child != nullptr) deepen(parent, *child);
  parent.children.push_back(std::move(child));
}

ExpressionPtr ExpressionParser::unary(ExpressionKind kind, ExpressionPtr inner, Place place) const {
  auto expression = make(kind);
  expression->place = place;
  adopt(*expression, std::move(inner));
  return expression;
}

ExpressionPtr ExpressionParser::binary(Operation operation, ExpressionPtr left, ExpressionPtr right,
                                       Place place) const {
  auto expression = make(ExpressionKind::kBinary);
  expression->place = place;
  expression->operation = operation;
  adopt(*expression, std::move(left));
  adopt(*expression, std::move(right));
  return expression;
}

bool ExpressionParser::ends_tuple() const {
  TokenKind kind = current().kind;
  return kind == TokenKind::kPrintEnd || kind == TokenKind::kBlockEnd || kind == TokenKind::kEnd ||
         is_operator(")") || is_operator("=") || is_name("recursive") || is_name("in");
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_condition) {
  auto tuple = make(ExpressionKind::kTuple);
  bool is_tuple = false;
  while (!ends_tuple()) {
    adopt(*tuple, with_condition ? parse_expression() : parse_or());
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (tuple->children.empty()) fail(fmt::format("an expression was expected, found {}", describe_current()));
  if (!is_tuple) return std::move(tuple->children[0]);
  return tuple;
}

ExpressionPtr ExpressionParser::parse_expression() {
  Nesting nesting(*this);
  ExpressionPtr value = parse_or();
  while (is_name("if")) {
    auto conditional = make(ExpressionKind::kConditional);
    advance();
    adopt(*conditional, std::move(value));
    adopt(*conditional, parse_or());
    adopt(*conditional, skip_name("else") ? parse_expression() : nullptr);
    value = std::move(conditional);
  }
  return value;
}

// Long chains of "a or b or c" are lists of children, so that their depth stays small.
ExpressionPtr ExpressionParser::parse_or() {
  auto all = make(ExpressionKind::kOr);
  adopt(*all, parse_and());
  while (skip_name("or")) adopt(*all, parse_and());
  if (all->children.size() == 1) return std::move(all->children[0]);
  return all;
}

ExpressionPtr ExpressionParser::parse_and() {
  auto all = make(ExpressionKind::kAnd);
  adopt(*all, parse_not());
  while (skip_name("and")) adopt(*all, parse_not());
  if (all->children.size() == 1) return std::move(all->children[0]);
  return all;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_comparison();
  Nesting nesting(*this);
  Place place = current().place;
  advance();
  return unary(ExpressionKind::kNot, parse_not(), place);
}

bool ExpressionParser::comparison_operator(Operation& operation) {
  static constexpr std::pair<std::string_view, Operation> kComparisons[] = {
      {"==", Operation::kEqual},  {"!=", Operation::kNotEqual},    {"<", Operation::kLess},
      {">", Operation::kGreater}, {"<=", Operation::kLessOrEqual}, {">=", Operation::kGreaterOrEqual}};
  for (const auto& [text, comparison] : kComparisons) {
    if (!skip_operator(text)) continue;
    operation = comparison;
    return true;
  }
  if (skip_name("in")) {
    operation = Operation::kIn;
    return true;
  }
  if (!is_name("not") || ahead().kind != TokenKind::kName || ahead().text != "in") return false;
  advance();
  advance();
  operation = Operation::kNotIn;
  return true;
}

ExpressionPtr ExpressionParser::parse_comparison() {
  auto comparison = make(ExpressionKind::kComparison);
  adopt(*comparison, parse_sum());
  Operation operation = Operation::kEqual;
  while (comparison_operator(operation)) {
    comparison->operations.push_back(operation);
    adopt(*comparison, parse_sum());
  }
  if (comparison->operations.empty()) return std::move(comparison->children[0]);
  return comparison;
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (is_operator("+") || is_operator("-")) {
    Place place = current().place;
    Operation operation = is_operator("+") ? Operation::kAdd : Operation::kSubtract;
    advance();
    left = binary(operation, std::move(left), parse_concatenation(), place);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  auto all = make(ExpressionKind::kBinary);
  all->operation = Operation::kConcatenate;
  adopt(*all, parse_product());
  while (skip_operator("~")) adopt(*all, parse_product());
  if (all->children.size() == 1) return std::move(all->children[0]);
  return all;
}

ExpressionPtr ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, Operation> kProducts[] = {{"*", Operation::kMultiply},
                                                                         {"/", Operation::kDivide},
                                                                         {"//", Operation::kFloorDivide},
                                                                         {"%", Operation::kModulo}};
  ExpressionPtr left = parse_power();
  for (;;) {
    const auto* found = std::find_if(std::begin(kProducts), std::end(kProducts),
                                     [&](const auto& product) { return is_operator(product.first); });
    if (found == std::end(kProducts)) return left;
    Place place = current().place;
    advance();
    left = binary(found->second, std::move(left), parse_power(), place);
  }
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary();
  while (is_operator("**")) {
    Place place = current().place;
    advance();
    left = binary(Operation::kPower, std::move(left), parse_unary(), place);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr value;
  if (is_operator("-") || is_operator("+")) {
    Nesting nesting(*this);
    ExpressionKind kind = is_operator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive;
    Place place = current().place;
    advance();
    value = unary(kind, parse_unary(false), place);
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filter_expression(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_named_primary() {
  const std::string& name = current().text;
  auto constant = make(ExpressionKind::kConstant);
  if (name == "true" || name == "True") {
    constant->constant = Value(true);
  } else if (name == "false" || name == "False") {
    constant->constant = Value(false);
  } else if (name == "none" || name == "None") {
    constant->constant = Value(None{});
  } else {
    constant->kind = ExpressionKind::kName;
    constant->name = name;
    constant->identifier = identifier(name);
  }
  advance();
  return constant;
}

ExpressionPtr ExpressionParser::parse_primary() {
  if (is_operator("(")) return parse_parentheses();
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  const Token& token = current();
  if (token.kind == TokenKind::kName) return parse_named_primary();
  auto constant = make(ExpressionKind::kConstant);
  if (token.kind == TokenKind::kString) {
    std::string text;
    for (; current().kind == TokenKind::kString; advance()) text += current().text;
    constant->constant = Value(std::move(text), kTemplateSource);
    return constant;
  }
  const char* end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::kInteger) {
    int64_t number = 0;
    if (std::from_chars(token.text.data(), end, number).ec == std::errc()) {
      constant->constant = Value(number);
    } else {
      constant->constant = Value(BigInteger{token.text});
    }
  } else if (token.kind == TokenKind::kFloat) {
    double number = 0;
    if (std::from_chars(token.text.data(), end, number).ec != std::errc())
      fail("a number does not fit into a float");
    constant->constant = Value(number);
  } else {
    fail(fmt::format("an expression was expected, found {}", describe_current()));
  }
  advance();
  return constant;
}

ExpressionPtr ExpressionParser::parse_parentheses() {
  Nesting nesting(*this);
  auto empty = make(ExpressionKind::kTuple);
  advance();
  if (skip_operator(")")) return empty;
  ExpressionPtr inner = parse_tuple();
  expect_operator(")");
  return inner;
}

ExpressionPtr ExpressionParser::parse_list() {
  Nesting nesting(*this);
  auto list = make(ExpressionKind::kList);
  advance();
  while (!is_operator("]")) {
    adopt(*list, parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("]");
  return list;
}

ExpressionPtr ExpressionParser::parse_dict() {
  Nesting nesting(*this);
  auto dict = make(ExpressionKind::kDict);
  advance();
  while (!is_operator("}")) {
    adopt(*dict, parse_expression());
    expect_operator(":");
    adopt(*dict, parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return dict;
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr inner) {
  for (;;) {
    if (is_operator(".")) {
      auto attribute = make(ExpressionKind::kAttribute);
      advance();
      adopt(*attribute, std::move(inner));
      if (current().kind == TokenKind::kInteger) {
        attribute->kind = ExpressionKind::kSubscript;
        adopt(*attribute, parse_primary());
      } else {
        attribute->name = expect_name();
      }
      inner = std::move(attribute);
    } else if (is_operator("[")) {
      inner = parse_subscript(std::move(inner));
    } else if (is_operator("(")) {
      inner = parse_call(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr inner) {
  Nesting nesting(*this);
  auto subscript = make(ExpressionKind::kSubscript);
  advance();
  adopt(*subscript, std::move(inner));
  adopt(*subscript, parse_subscript_part());
  if (is_operator(",")) fail("subscripts of several parts are not supported");
  expect_operator("]");
  return subscript;
}

ExpressionPtr ExpressionParser::parse_subscript_part() {
  auto slice = make(ExpressionKind::kSlice);
  slice->children.resize(3);
  if (!is_operator(":")) {
    ExpressionPtr first = parse_expression();
    if (!is_operator(":")) return first;
    deepen(*slice, *first);
    slice->children[0] = std::move(first);
  }
  for (size_t part = 1; part < 3 && skip_operator(":"); ++part) {
    if (is_operator(":") || is_operator("]") || is_operator(",")) continue;
    slice->children[part] = parse_expression();
    deepen(*slice, *slice->children[part]);
  }
  return slice;
}

void ExpressionParser::parse_arguments(Expression& call) {
  Nesting nesting(*this);
  expect_operator("(");
  while (!is_operator(")")) {
    if (is_operator("*") || is_operator("**")) fail("'*' before arguments is not supported");
    if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator && ahead().text == "=") {
      std::string name = expect_name();
      advance();
      ExpressionPtr value = parse_expression();
      deepen(call, *value);
      call.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.keywords.empty()) fail("an argument without a name follows one with a name");
      adopt(call, parse_expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  auto call = make(ExpressionKind::kCall);
  adopt(*call, std::move(callee));
  parse_arguments(*call);
  return call;
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr inner, bool starts_inside) {
  while (starts_inside || is_operator("|")) {
    if (!starts_inside) advance();
    starts_inside = false;
    auto filter = make(ExpressionKind::kFilter);
    filter->name = expect_name();
    filter->identifier = find_filter(filter->name);
    if (filter->identifier < 0)
      throw SyntaxError{fmt::format("there is no filter '{}'", filter->name), filter->place};
    adopt(*filter, std::move(inner));
    if (is_operator("(")) parse_arguments(*filter);
    inner = std::move(filter);
  }
  return inner;
}

ExpressionPtr ExpressionParser::parse_filter_expression(ExpressionPtr inner) {
  for (;;) {
    if (is_operator("|")) {
      inner = parse_filters(std::move(inner), false);
    } else if (is_name("is")) {
      inner = parse_test(std::move(inner));
    } else if (is_operator("(")) {
      inner = parse_call(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr inner) {
  Place place = current().place;
  advance();
  bool negated = skip_name("not");
  auto test = make(ExpressionKind::kTest);
  test->name = expect_name();
  test->identifier = find_test(test->name);
  if (test->identifier < 0) throw SyntaxError{fmt::format("there is no test '{}'", test->name), test->place};
  adopt(*test, std::move(inner));
  TokenKind kind = current().kind;
  bool operand = kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
                 is_operator("[") || is_operator("{") ||
                 (kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and"));
  if (is_operator("(")) {
    parse_arguments(*test);
  } else if (operand) {
    if (is_name("is")) fail("tests cannot be chained with 'is'");
    adopt(*test, parse_postfix(parse_primary()));
  }
  if (!negated) return test;
  return unary(ExpressionKind::kNot, std::move(test), place);
}

}  // namespace stoker::jinja
