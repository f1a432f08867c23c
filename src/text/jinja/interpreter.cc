#include "text/jinja/interpreter.h"

#include <fmt/format.h>

#include "text/jinja/operators.h"

namespace stoker::jinja {
namespace {

constexpr const char* kFunctions[] = {"range", "dict", "namespace", "raise_exception", "strftime_now"};

}  // namespace

void Scope::set(int name, Value value) {
  for (auto& [known, old_value] : variables) {
    if (known != name) continue;
    old_value = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find(int name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

Value LoopState::attribute(std::string_view name, const std::string* name_in_template) const {
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return items.size() - index;
  if (name == "revindex0") return items.size() - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == items.size();
  if (name == "length") return items.size();
  if (name == "depth") return 1;
  if (name == "depth0") return 0;
  if (name == "previtem") return index == 0 ? Value(Undefined{name_in_template}) : items[index - 1];
  if (name == "nextitem")
    return index + 1 == items.size() ? Value(Undefined{name_in_template}) : items[index + 1];
  if (name == "cycle" || name == "changed") {
    Callable method{.kind = CallableKind::kMethod, .name = std::string(name), .self = Value(this)};
    return std::make_shared<const Callable>(std::move(method));
  }
  return Undefined{name_in_template};
}

Value LoopState::call(std::string_view name, const Arguments& arguments) const {
  if (name == "cycle") {
    if (arguments.positional.empty()) throw RenderError{"loop.cycle needs arguments"};
    return arguments.positional[index % arguments.positional.size()];
  }
  Value now = make_list(arguments.positional, ListKind::kTuple);
  bool changed = !seen || !is_equal(last, now);
  last = std::move(now);
  seen = true;
  return changed;
}

Interpreter::Interpreter(const Syntax& syntax, const Variables& variables, const CivilTime& now,
                         const RenderLimits& limits)
    : syntax_(syntax), now_(now), budget_(limits) {
  for (const char* name : kFunctions) {
    int identifier = syntax.find(name);
    if (identifier < 0) continue;
    globals_.set(identifier, std::make_shared<const Callable>(Callable{.name = name}));
  }
  for (const auto& [name, value] : variables) {
    int identifier = syntax.find(name);
    if (identifier >= 0) globals_.set(identifier, value);
  }
}

Rendered Interpreter::run() {
  Scope scope{.parent = &globals_};
  execute(syntax_.body, scope);
  return std::move(rendered_);
}

void Interpreter::write(const Value& value) {
  const MarkedText* text = value.text();
  MarkedText made;
  if (text == nullptr) {
    made = to_text(value);
    text = &made;
  }
  if (text->empty()) return;
  budget_.bytes(text->size());
  size_t begin = out_->size();
  out_->append(*text);
  if (out_ != &rendered_.text || message_ < 0) return;
  std::vector<Rendered::MessageSpan>& spans = rendered_.messages;
  if (!spans.empty() && spans.back().message == message_ && spans.back().bytes.end == begin) {
    spans.back().bytes.end = out_->size();
  } else {
    spans.push_back({{begin, out_->size()}, message_});
  }
}

Interpreter::Flow Interpreter::execute(const Block& block, Scope& scope) {
  Depth depth(*this);
  for (const auto& statement : block) {
    Flow flow = execute(*statement, scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, Scope& scope) {
  budget_.step();
  place_ = statement.place;
  switch (statement.kind) {
    case StatementKind::kData:
      write(statement.constant);
      break;
    case StatementKind::kPrint:
      write(evaluate(*statement.expression, scope));
      break;
    case StatementKind::kIf:
      return execute(is_truthy(evaluate(*statement.expression, scope)) ? statement.body : statement.otherwise,
                     scope);
    case StatementKind::kFor:
      return execute_for(statement, scope);
    case StatementKind::kSet:
      assign(statement.target, evaluate(*statement.expression, scope), scope);
      break;
    case StatementKind::kSetBlock:
      execute_set_block(statement, scope);
      break;
    case StatementKind::kMacro:
      scope.set(
          statement.identifier,
          std::make_shared<const Callable>(Callable{
              .kind = CallableKind::kMacro, .name = statement.name, .macro = &statement, .scope = &scope}));
      break;
    case StatementKind::kCallBlock:
      execute_call_block(statement, scope);
      break;
    case StatementKind::kFilterBlock:
      execute_filter_block(statement, scope);
      break;
    case StatementKind::kGeneration:
      execute_generation(statement, scope);
      break;
    case StatementKind::kWith:
      return execute_with(statement, scope);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::assign(const Target& target, Value value, Scope& scope) {
  if (!target.member.empty()) {
    const Value* holder = scope.find(target.names[0]);
    Namespace* name_space = holder == nullptr ? nullptr : holder->name_space();
    if (name_space == nullptr)
      throw RenderError{fmt::format("'{}' is no namespace, so '{}' cannot be set",
                                    syntax_.names[target.names[0]], target.member)};
    bool callable = value.callable() != nullptr || value.loop() != nullptr ||
                    (value.list() != nullptr && value.list()->holds_callable) ||
                    (value.dict() != nullptr && value.dict()->holds_callable);
    if (callable) throw RenderError{"a macro, a method or a loop cannot be kept in a namespace"};
    for (auto& [name, member] : name_space->members) {
      if (name != target.member) continue;
      member = std::move(value);
      return;
    }
    name_space->members.emplace_back(target.member, std::move(value));
    return;
  }
  if (!target.unpacks) return scope.set(target.names[0], std::move(value));
  std::vector<Value> items = elements(value, budget_);
  if (value.is_undefined()) refuse_undefined(*value.undefined());
  if (items.size() != target.names.size())
    throw RenderError{
        fmt::format("{} values cannot be assigned to {} names", items.size(), target.names.size())};
  for (size_t i = 0; i < items.size(); ++i) scope.set(target.names[i], items[i]);
}

Interpreter::Flow Interpreter::execute_for(const Statement& statement, Scope& scope) {
  Depth depth(*this);
  LoopState loop;
  for (Value& item : elements(evaluate(*statement.expression, scope), budget_)) {
    if (statement.condition != nullptr) {
      Scope inner{.parent = &scope};
      assign(statement.target, item, inner);
      if (!is_truthy(evaluate(*statement.condition, inner))) continue;
    }
    loop.items.push_back(std::move(item));
  }
  if (loop.items.empty()) {
    Scope inner{.parent = &scope};
    return execute(statement.otherwise, inner);
  }
  return iterate(statement, scope, loop);
}

Interpreter::Flow Interpreter::iterate(const Statement& statement, Scope& scope, LoopState& loop) {
  int outer_message = message_;
  for (; loop.index < loop.items.size(); ++loop.index) {
    const Value& item = loop.items[loop.index];
    budget_.step();
    if (item.dict() != nullptr && item.dict()->message >= 0) message_ = item.dict()->message;
    Scope inner{.parent = &scope};
    inner.variables.reserve(4);
    inner.set(statement.identifier, Value(static_cast<const LoopState*>(&loop)));
    assign(statement.target, item, inner);
    Flow flow = execute(statement.body, inner);
    message_ = outer_message;
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

MarkedText Interpreter::capture(const Block& block, const Scope& parent) {
  MarkedText captured;
  MarkedText* outer = std::exchange(out_, &captured);
  Scope scope{.parent = &parent};
  try {
    execute(block, scope);
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return captured;
}

void Interpreter::execute_set_block(const Statement& statement, Scope& scope) {
  Value value(capture(statement.body, scope));
  if (statement.expression != nullptr) value = evaluate_filters(*statement.expression, &value, scope);
  assign(statement.target, std::move(value), scope);
}

void Interpreter::execute_filter_block(const Statement& statement, Scope& scope) {
  Value value(capture(statement.body, scope));
  write(evaluate_filters(*statement.expression, &value, scope));
}

void Interpreter::execute_call_block(const Statement& statement, Scope& scope) {
  Value caller = std::make_shared<const Callable>(
      Callable{.kind = CallableKind::kMacro, .name = "caller", .macro = &statement, .scope = &scope});
  write(evaluate_call(*statement.expression, scope, &caller));
}

void Interpreter::execute_generation(const Statement& statement, Scope& scope) {
  Scope inner{.parent = &scope};
  bool at_root = out_ == &rendered_.text;
  size_t begin = out_->size();
  execute(statement.body, inner);
  if (at_root) rendered_.generation.push_back({begin, out_->size()});
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement, Scope& scope) {
  Scope inner{.parent = &scope};
  for (const auto& [target, expression] : statement.assignments)
    assign(target, evaluate(*expression, scope), inner);
  return execute(statement.body, inner);
}

}  // namespace stoker::jinja
