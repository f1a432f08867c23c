#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

enum class ExpressionKind : uint8_t {
  kConstant,   // constant
  kName,       // name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value
  kAttribute,  // children[0] . name
  kSubscript,  // children[0] [ children[1] ]
  kSlice,      // children: begin, end, step; each may be null
  kCall,       // children[0] ( children[1...], keywords )
  kFilter,     // children[0] | name ( children[1...], keywords ); children[0] null in a filter block
  kTest,       // children[0] is name ( children[1...] )
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kBinary,       // children[0] operation children[1]
  kComparison,   // children[0] operations[0] children[1] operations[1] children[2] ...
  kConditional,  // children[0] if children[1] else children[2], which may be null
};

enum class Operation : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcatenate,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  Place place;
  std::string name;
  int identifier = -1;  // of a name: filter, test, or variable
  Value constant;
  Operation operation = Operation::kAdd;
  std::vector<Operation> operations;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  int depth = 1;
};

// What an assignment or a loop binds: a name, a member of a namespace, or several names.
struct Target {
  std::vector<int> names;  // identifiers of variables
  bool unpacks = false;    // "a, b": the value is a sequence of that length
  std::string member;      // of the namespace that names[0] holds; empty: the variable itself
};

struct Parameter {
  int name = 0;
  std::string text;
  ExpressionPtr initial;  // null: undefined unless given
};

enum class StatementKind : uint8_t {
  kData,         // constant
  kPrint,        // expression
  kIf,           // expression, body, otherwise
  kFor,          // target in expression if condition: body, else otherwise
  kSet,          // target = expression
  kSetBlock,     // target = body through the filters of expression, which may be null
  kMacro,        // name(parameters): body
  kCallBlock,    // expression is the call; parameters and body are the caller's
  kFilterBlock,  // body through the filters of expression
  kGeneration,   // body: what the assistant says
  kWith,         // targets = values: body
  kBreak,
  kContinue,
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

struct Statement {
  StatementKind kind = StatementKind::kData;
  Place place;
  Value constant;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  std::string name;
  int identifier = -1;
  std::vector<Parameter> parameters;
  bool takes_varargs = false;  // the body of a macro mentions varargs, kwargs, caller
  bool takes_kwargs = false;
  bool takes_caller = false;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  Block otherwise;
};

// The variables' names, by identifier.
using Names = std::vector<std::string>;

struct Syntax {
  Block body;
  Names names;

  // -1 when the template does not mention it.
  int find(std::string_view name) const;
};

// Deepest nesting of brackets and statements, and of the tree of one expression; deeper ones are refused.
constexpr int kMaxNesting = 100;
constexpr int kMaxExpressionDepth = 400;

// Throws SyntaxError, naming what is unknown or not supported.
Syntax parse(std::string_view source);

}  // namespace stoker::jinja
