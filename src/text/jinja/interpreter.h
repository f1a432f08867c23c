#pragma once

#include <deque>
#include <string_view>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/callable.h"
#include "text/jinja/syntax.h"
#include "text/jinja/template.h"

namespace stoker::jinja {

// One render of a template: walks its syntax. Throws RenderError; place() is then where.
class Interpreter {
 public:
  Interpreter(const Syntax& syntax, const Variables& variables, const CivilTime& now,
              const RenderLimits& limits);

  Rendered run();
  Place place() const { return place_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Counts recursion for as long as it lives.
  class Depth {
   public:
    explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
      if (++interpreter_.depth_ > interpreter_.budget_.max_depth())
        throw RenderError{"the template recurses too deeply"};
    }
    ~Depth() { --interpreter_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Interpreter& interpreter_;
  };

  // Statements (interpreter.cc).
  Flow execute(const Block& block, Scope& scope);
  Flow execute(const Statement& statement, Scope& scope);
  Flow execute_for(const Statement& statement, Scope& scope);
  Flow iterate(const Statement& statement, Scope& scope, LoopState& loop);
  void execute_set_block(const Statement& statement, Scope& scope);
  void execute_call_block(const Statement& statement, Scope& scope);
  void execute_filter_block(const Statement& statement, Scope& scope);
  void execute_generation(const Statement& statement, Scope& scope);
  Flow execute_with(const Statement& statement, Scope& scope);
  void assign(const Target& target, Value value, Scope& scope);
  void write(const Value& value);
  // What the block writes, in a scope of its own.
  MarkedText capture(const Block& block, const Scope& parent);

  // Expressions (evaluation.cc).
  Value evaluate(const Expression& expression, const Scope& scope);
  Value evaluate_optional(const ExpressionPtr& expression, const Scope& scope);
  Value evaluate_comparison(const Expression& expression, const Scope& scope);
  Value evaluate_binary(const Expression& expression, const Scope& scope);
  Value evaluate_call(const Expression& expression, const Scope& scope, const Value* caller = nullptr);
  Value evaluate_filters(const Expression& expression, const Value* innermost, const Scope& scope);
  Value evaluate_literal(const Expression& expression, const Scope& scope);
  Arguments evaluate_arguments(const Expression& expression, const Scope& scope);
  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const Callable& callable, Arguments& arguments);
  void bind(const Callable& callable, Arguments& arguments, Scope& scope);
  Value call_function(std::string_view name, const Arguments& arguments);
  Value make_range(const Arguments& arguments);
  Value format_time(const Arguments& arguments);
  Value lookup(const Expression& expression, const Scope& scope) const;

  const Syntax& syntax_;
  CivilTime now_;
  Budget budget_;
  Scope globals_;
  std::deque<Namespace> namespaces_;
  Rendered rendered_;
  MarkedText* out_ = &rendered_.text;
  int message_ = -1;  // of the conversation, at which a loop stands
  int depth_ = 0;
  Place place_;
};

}  // namespace stoker::jinja
