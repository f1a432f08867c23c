#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace stoker::jinja {

Value Interpreter::lookup(const Expression& expression, const Scope& scope) const {
  const Value* value = scope.find(expression.identifier);
  if (value == nullptr) return Undefined{&expression.name};
  if (value->is_undefined()) return Undefined{&expression.name};
  return *value;
}

Value Interpreter::evaluate(const Expression& expression, const Scope& scope) {
  budget_.step();
  const auto& children = expression.children;
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return lookup(expression, scope);
    default:
      break;
  }
  Depth depth(*this);
  place_ = expression.place;
  switch (expression.kind) {
    case ExpressionKind::kAttribute:
      return attribute(evaluate(*children[0], scope), expression.name, &expression.name, budget_);
    case ExpressionKind::kCall:
      return evaluate_call(expression, scope);
    case ExpressionKind::kFilter:
      return evaluate_filters(expression, nullptr, scope);
    case ExpressionKind::kTest: {
      Value value = evaluate(*children[0], scope);
      Arguments operands = evaluate_arguments(expression, scope);
      return apply_test(expression.identifier, value, operands, budget_);
    }
    case ExpressionKind::kNot:
      return !is_truthy(evaluate(*children[0], scope));
    case ExpressionKind::kNegative:
      return negative(evaluate(*children[0], scope));
    case ExpressionKind::kPositive:
      return positive(evaluate(*children[0], scope));
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr: {
      Value value;
      for (const ExpressionPtr& child : children) {
        value = evaluate(*child, scope);
        if (is_truthy(value) == (expression.kind == ExpressionKind::kOr)) break;
      }
      return value;
    }
    case ExpressionKind::kBinary:
      return evaluate_binary(expression, scope);
    case ExpressionKind::kComparison:
      return evaluate_comparison(expression, scope);
    case ExpressionKind::kConditional:
      if (is_truthy(evaluate(*children[1], scope))) return evaluate(*children[0], scope);
      return evaluate_optional(children[2], scope);
    default:
      return evaluate_literal(expression, scope);
  }
}

Value Interpreter::evaluate_optional(const ExpressionPtr& expression, const Scope& scope) {
  return expression == nullptr ? Value() : evaluate(*expression, scope);
}

Value Interpreter::evaluate_literal(const Expression& expression, const Scope& scope) {
  const auto& children = expression.children;
  if (expression.kind == ExpressionKind::kSubscript) {
    Value value = evaluate(*children[0], scope);
    const Expression& key = *children[1];
    if (key.kind != ExpressionKind::kSlice) return subscript(value, evaluate(key, scope), nullptr, budget_);
    Value begin = evaluate_optional(key.children[0], scope);
    Value end = evaluate_optional(key.children[1], scope);
    Value step = evaluate_optional(key.children[2], scope);
    for (const Value* part : {&begin, &end, &step}) {
      bool given = key.children[static_cast<size_t>(part == &begin ? 0 : part == &end ? 1 : 2)] != nullptr;
      if (given && part->is_undefined()) refuse_undefined(*part->undefined());
    }
    return slice(value, begin, end, step, budget_);
  }
  budget_.bytes(children.size() * sizeof(Value));
  if (expression.kind == ExpressionKind::kDict) {
    std::vector<std::pair<Value, Value>> members;
    for (size_t i = 0; i < children.size(); i += 2) {
      Value key = evaluate(*children[i], scope);
      if (key.is_list() || key.is_dict())
        throw RenderError{fmt::format("a {} cannot be a key", type_name(key))};
      members.emplace_back(std::move(key), evaluate(*children[i + 1], scope));
    }
    return make_dict(std::move(members));
  }
  std::vector<Value> items;
  for (const ExpressionPtr& child : children) items.push_back(evaluate(*child, scope));
  return make_list(std::move(items),
                   expression.kind == ExpressionKind::kTuple ? ListKind::kTuple : ListKind::kList);
}

Value Interpreter::evaluate_binary(const Expression& expression, const Scope& scope) {
  const auto& children = expression.children;
  if (expression.operation != Operation::kConcatenate) {
    Value left = evaluate(*children[0], scope);
    Value right = evaluate(*children[1], scope);
    place_ = expression.place;
    return binary_operation(expression.operation, left, right, budget_);
  }
  MarkedText text;
  for (const ExpressionPtr& child : children) {
    Value value = evaluate(*child, scope);
    MarkedText part = to_text(value);
    budget_.bytes(part.size());
    text.append(part);
  }
  return text;
}

Value Interpreter::evaluate_comparison(const Expression& expression, const Scope& scope) {
  Value left = evaluate(*expression.children[0], scope);
  for (size_t i = 0; i < expression.operations.size(); ++i) {
    Value right = evaluate(*expression.children[i + 1], scope);
    place_ = expression.place;
    if (!comparison(expression.operations[i], left, right, budget_)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::evaluate_arguments(const Expression& expression, const Scope& scope) {
  Arguments arguments;
  for (size_t i = 1; i < expression.children.size(); ++i)
    arguments.positional.push_back(evaluate(*expression.children[i], scope));
  for (const auto& [name, value] : expression.keywords)
    arguments.named.emplace_back(name, evaluate(*value, scope));
  place_ = expression.place;
  return arguments;
}

Value Interpreter::evaluate_filters(const Expression& expression, const Value* innermost,
                                    const Scope& scope) {
  Depth depth(*this);
  const ExpressionPtr& inner = expression.children[0];
  Value input;
  if (inner == nullptr) {
    input = *innermost;
  } else if (innermost != nullptr) {
    input = evaluate_filters(*inner, innermost, scope);
  } else {
    input = evaluate(*inner, scope);
  }
  Arguments arguments = evaluate_arguments(expression, scope);
  return apply_filter(expression.identifier, input, arguments, budget_);
}

Value Interpreter::evaluate_call(const Expression& expression, const Scope& scope, const Value* caller) {
  const Expression& callee = *expression.children[0];
  // The usual method call needs no object for the method.
  if (callee.kind == ExpressionKind::kAttribute && caller == nullptr) {
    Value self = evaluate(*callee.children[0], scope);
    if (is_method(self, callee.name)) {
      Arguments arguments = evaluate_arguments(expression, scope);
      return call_method(self, callee.name, arguments, budget_);
    }
    place_ = callee.place;
    Value function = attribute(self, callee.name, &callee.name, budget_);
    Arguments arguments = evaluate_arguments(expression, scope);
    return call(function, arguments);
  }
  Value function = evaluate(callee, scope);
  Arguments arguments = evaluate_arguments(expression, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call(function, arguments);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (const Undefined* undefined = callee.undefined()) refuse_undefined(*undefined);
  const Callable* callable = callee.callable();
  if (callable == nullptr) throw RenderError{fmt::format("a {} cannot be called", type_name(callee))};
  switch (callable->kind) {
    case CallableKind::kMacro:
      return call_macro(*callable, arguments);
    case CallableKind::kMethod:
      if (const LoopState* loop = callable->self.loop()) return loop->call(callable->name, arguments);
      return call_method(callable->self, callable->name, arguments, budget_);
    case CallableKind::kFunction:
      break;
  }
  return call_function(callable->name, arguments);
}

void Interpreter::bind(const Callable& callable, Arguments& arguments, Scope& scope) {
  const Statement& macro = *callable.macro;
  size_t count = macro.parameters.size();
  std::vector<bool> used(arguments.named.size());
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    Value value;
    bool given = i < arguments.positional.size();
    if (given) value = arguments.positional[i];
    for (size_t n = 0; n < arguments.named.size(); ++n) {
      if (arguments.named[n].first != parameter.text) continue;
      if (given) throw RenderError{fmt::format("the argument '{}' was given twice", parameter.text)};
      value = arguments.named[n].second;
      used[n] = given = true;
    }
    if (!given && parameter.initial != nullptr) value = evaluate(*parameter.initial, scope);
    scope.set(parameter.name, std::move(value));
  }
  std::vector<Value> rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
  if (!rest.empty() && !macro.takes_varargs)
    throw RenderError{fmt::format("'{}' takes at most {} arguments", callable.name, count)};
  std::vector<std::pair<Value, Value>> named_rest;
  for (size_t n = 0; n < arguments.named.size(); ++n) {
    if (used[n]) continue;
    const auto& [name, value] = arguments.named[n];
    if (name == "caller" && macro.takes_caller) {
      scope.set(syntax_.find("caller"), value);
    } else if (macro.takes_kwargs) {
      named_rest.emplace_back(Value(name, kTemplateSource), value);
    } else {
      throw RenderError{fmt::format("'{}' has no argument '{}'", callable.name, name)};
    }
  }
  if (macro.takes_varargs) scope.set(syntax_.find("varargs"), make_list(std::move(rest), ListKind::kTuple));
  if (macro.takes_kwargs) scope.set(syntax_.find("kwargs"), make_dict(std::move(named_rest)));
}

Value Interpreter::call_macro(const Callable& callable, Arguments& arguments) {
  Depth depth(*this);
  Scope scope{.parent = callable.scope};
  // A caller's block sees the caller around it; a macro has none unless it is given one.
  if (callable.macro->kind == StatementKind::kMacro && callable.macro->takes_caller)
    scope.set(syntax_.find("caller"), Value());
  bind(callable, arguments, scope);
  return capture(callable.macro->body, scope);
}

Value Interpreter::call_function(std::string_view name, const Arguments& arguments) {
  if (name == "range") return make_range(arguments);
  if (name == "strftime_now") return format_time(arguments);
  if (name == "raise_exception") {
    arguments.expect({"message"});
    const Value* message = arguments.find(0, "message");
    throw RenderError{message == nullptr ? std::string() : to_text(*message).bytes(), true};
  }
  std::vector<std::pair<Value, Value>> members;
  if (arguments.positional.size() > 1) throw RenderError{fmt::format("'{}' takes one dict at most", name)};
  if (!arguments.positional.empty()) {
    const Dict* dict = arguments.positional[0].dict();
    if (dict == nullptr) throw RenderError{fmt::format("'{}' takes a dict or named values", name)};
    members = dict->members;
  }
  for (const auto& [key, value] : arguments.named) members.emplace_back(Value(key, kTemplateSource), value);
  budget_.bytes(members.size() * 2 * sizeof(Value));
  DictPtr dict = make_dict(std::move(members));
  if (name == "dict") return dict;
  if (dict->holds_callable) throw RenderError{"a macro, a method or a loop cannot be kept in a namespace"};
  budget_.bytes(sizeof(Namespace));
  Namespace& made = namespaces_.emplace_back();
  for (const auto& [key, value] : dict->members) made.members.emplace_back(to_text(key).bytes(), value);
  return &made;
}

Value Interpreter::make_range(const Arguments& arguments) {
  constexpr int64_t kLongest = 100'000;  // jinja2's sandbox has the same limit
  int64_t numbers[3] = {0, 0, 1};
  size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty())
    throw RenderError{"range takes one to three integers"};
  for (size_t i = 0; i < count; ++i) {
    if (!to_integer(arguments.positional[i], numbers[count == 1 ? 1 : i]))
      throw RenderError{"range takes one to three integers"};
  }
  auto [begin, end, step] = numbers;
  if (step == 0) throw RenderError{"the step of range is zero"};
  std::vector<Value> items;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<int64_t>(items.size()) >= kLongest) throw RenderError{"range is longer than 100000"};
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  budget_.bytes(items.size() * sizeof(Value));
  return make_list(std::move(items));
}

Value Interpreter::format_time(const Arguments& arguments) {
  arguments.expect({"format"});
  const Value* format = arguments.find(0, "format");
  if (format == nullptr || format->text() == nullptr) throw RenderError{"strftime_now needs a format"};
  const std::string& pattern = format->text()->bytes();
  if (pattern.empty()) return MarkedText();
  if (pattern.size() > 256 || pattern.find('\0') != std::string::npos)
    throw RenderError{"the format of strftime_now is too long or broken"};
  std::tm time{};
  time.tm_year = now_.year - 1900;
  time.tm_mon = now_.month - 1;
  time.tm_mday = now_.day;
  time.tm_hour = now_.hour;
  time.tm_min = now_.minute;
  time.tm_sec = now_.second;
  std::tm normal = time;
  (void)::timegm(&normal);  // fills in the day of the week and of the year
  char buffer[4096];
  size_t size = std::strftime(buffer, sizeof(buffer), pattern.c_str(), &normal);
  return MarkedText(std::string(buffer, size), kTemplateSource);
}

}  // namespace stoker::jinja
