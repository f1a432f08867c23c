#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/parser.h"

namespace stoker::jinja {
namespace {

class StatementParser : private ExpressionParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Syntax run() {
    Syntax syntax;
    syntax.body = parse_block({});
    syntax.names = std::move(names_);
    return syntax;
  }

 private:
  using StatementPtr = std::unique_ptr<Statement>;

  StatementPtr make(StatementKind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->place = current().place;
    return statement;
  }

  void expect_block_end() {
    if (current().kind != TokenKind::kBlockEnd)
      fail(fmt::format("the end of the tag was expected, found {}", describe_current()));
    advance();
  }

  // Statements up to a tag that begins with one of `ends`, whose name is left as the current token. Without
  // ends: up to the end of the template.
  Block parse_block(std::initializer_list<std::string_view> ends) {
    Nesting nesting(*this);
    Block block;
    for (;;) {
      if (current().kind == TokenKind::kEnd) {
        if (ends.size() == 0) return block;
        fail(fmt::format("the template ends where '{}' was expected", *(ends.end() - 1)));
      }
      if (current().kind == TokenKind::kData) {
        auto data = make(StatementKind::kData);
        data->constant = Value(current().text, kTemplateSource);
        advance();
        block.push_back(std::move(data));
      } else if (current().kind == TokenKind::kPrintBegin) {
        block.push_back(parse_print());
      } else {
        advance();
        if (current().kind != TokenKind::kName)
          fail(fmt::format("the name of a tag was expected, found {}", describe_current()));
        if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return block;
        block.push_back(parse_tag());
      }
    }
  }

  // A block that ends with `end`, which is consumed.
  Block parse_body(std::string_view end) {
    expect_block_end();
    Block block = parse_block({end});
    advance();
    return block;
  }

  StatementPtr parse_print() {
    auto print = make(StatementKind::kPrint);
    advance();
    print->expression = parse_tuple();
    if (current().kind != TokenKind::kPrintEnd)
      fail(fmt::format("'}}}}' was expected, found {}", describe_current()));
    advance();
    return print;
  }

  StatementPtr parse_tag() {
    const std::string& name = current().text;
    StatementPtr statement;
    if (name == "if") {
      statement = parse_if();
    } else if (name == "for") {
      statement = parse_for();
    } else if (name == "set") {
      statement = parse_set();
    } else if (name == "macro") {
      statement = parse_macro();
    } else if (name == "call") {
      statement = parse_call_block();
    } else if (name == "filter") {
      statement = make(StatementKind::kFilterBlock);
      advance();
      statement->expression = parse_filters(nullptr, true);
      statement->body = outside_loop([&] { return parse_body("endfilter"); });
    } else if (name == "generation") {
      statement = make(StatementKind::kGeneration);
      advance();
      statement->body = outside_loop([&] { return parse_body("endgeneration"); });
    } else if (name == "with") {
      statement = parse_with();
    } else if (name == "break" || name == "continue") {
      statement = make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
      if (loops_ == 0) fail(fmt::format("'{}' stands outside of a loop", name));
      advance();
    } else {
      fail(fmt::format("the tag {} is not supported", describe_current()));
    }
    expect_block_end();
    return statement;
  }

  // The body of a macro or the like is no part of the loop around it.
  template <typename Parse>
  Block outside_loop(Parse parse) {
    int loops = std::exchange(loops_, 0);
    Block block = parse();
    loops_ = loops;
    return block;
  }

  StatementPtr parse_if() {
    auto statement = make(StatementKind::kIf);
    advance();
    statement->expression = parse_tuple(false);
    expect_block_end();
    statement->body = parse_block({"elif", "else", "endif"});
    if (is_name("elif")) {
      Nesting nesting(*this);
      statement->otherwise.push_back(parse_if());
      return statement;  // the innermost has consumed endif
    }
    if (skip_name("else")) {
      expect_block_end();
      statement->otherwise = parse_block({"endif"});
    }
    advance();
    return statement;
  }

  // "name", "name, name", or with `member` "name.member".
  Target parse_target(bool member) {
    Target target;
    bool parenthesis = skip_operator("(");
    do {
      if (parenthesis && is_operator(")")) break;
      if (!target.names.empty() && (is_name("in") || is_operator("="))) break;
      const std::string name = expect_name();
      static constexpr std::string_view kReserved[] = {
          "true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else"};
      if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved))
        fail(fmt::format("'{}' cannot be assigned to", name));
      target.names.push_back(identifier(name));
      if (member && target.names.size() == 1 && skip_operator(".")) {
        target.member = expect_name();
        return target;
      }
      if (!is_operator(",")) break;
      target.unpacks = true;
    } while (skip_operator(","));
    if (parenthesis) expect_operator(")");
    return target;
  }

  StatementPtr parse_for() {
    auto statement = make(StatementKind::kFor);
    advance();
    statement->target = parse_target(false);
    if (!skip_name("in")) fail(fmt::format("'in' was expected, found {}", describe_current()));
    statement->expression = parse_tuple(false);
    if (skip_name("if")) statement->condition = parse_expression();
    if (is_name("recursive")) fail("recursive loops are not supported");
    expect_block_end();
    ++loops_;
    statement->identifier = identifier("loop");
    statement->body = parse_block({"else", "endfor"});
    --loops_;
    if (skip_name("else")) {
      expect_block_end();
      statement->otherwise = parse_block({"endfor"});
    }
    advance();
    return statement;
  }

  StatementPtr parse_set() {
    auto statement = make(StatementKind::kSet);
    advance();
    statement->target = parse_target(true);
    if (skip_operator("=")) {
      statement->expression = parse_tuple();
      return statement;
    }
    statement->kind = StatementKind::kSetBlock;
    if (statement->target.unpacks) fail("a block can be assigned to one name only");
    if (is_operator("|")) statement->expression = parse_filters(nullptr, false);
    statement->body = outside_loop([&] { return parse_body("endset"); });
    return statement;
  }

  void parse_parameters(Statement& statement) {
    expect_operator("(");
    while (!is_operator(")")) {
      Parameter parameter;
      parameter.text = expect_name();
      parameter.name = identifier(parameter.text);
      if (skip_operator("=")) {
        parameter.initial = parse_expression();
      } else if (!statement.parameters.empty() && statement.parameters.back().initial != nullptr) {
        fail("a parameter without a default follows one that has a default");
      }
      statement.parameters.push_back(std::move(parameter));
      if (!skip_operator(",")) break;
    }
    expect_operator(")");
  }

  StatementPtr parse_macro() {
    auto statement = make(StatementKind::kMacro);
    advance();
    statement->name = expect_name();
    statement->identifier = identifier(statement->name);
    parse_parameters(*statement);
    parse_macro_body(*statement, "endmacro");
    return statement;
  }

  // What a macro's body mentions decides what else it can be given.
  void parse_macro_body(Statement& statement, std::string_view end) {
    size_t first = position();
    statement.body = outside_loop([&] { return parse_body(end); });
    statement.takes_varargs = mentions(first, "varargs");
    statement.takes_kwargs = mentions(first, "kwargs");
    statement.takes_caller = mentions(first, "caller");
    for (std::string_view extra : {"varargs", "kwargs", "caller"}) identifier(std::string(extra));
  }

  StatementPtr parse_call_block() {
    auto statement = make(StatementKind::kCallBlock);
    advance();
    if (is_operator("(")) parse_parameters(*statement);
    statement->expression = parse_unary();
    if (statement->expression->kind != ExpressionKind::kCall) fail("a call block needs the call of a macro");
    statement->name = "caller";
    statement->identifier = identifier("caller");
    parse_macro_body(*statement, "endcall");
    return statement;
  }

  StatementPtr parse_with() {
    auto statement = make(StatementKind::kWith);
    advance();
    while (current().kind != TokenKind::kBlockEnd) {
      Target target = parse_target(false);
      expect_operator("=");
      statement->assignments.emplace_back(std::move(target), parse_expression());
      if (!skip_operator(",")) break;
    }
    statement->body = parse_body("endwith");
    return statement;
  }

  int loops_ = 0;
};

}  // namespace

int Syntax::find(std::string_view name) const {
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

Syntax parse(std::string_view source) { return StatementParser(tokenize(source)).run(); }

}  // namespace stoker::jinja
