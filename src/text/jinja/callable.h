#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// Variables of one block; names are looked up outwards.
struct Scope {
  const Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;

  void set(int name, Value value);
  const Value* find(int name) const;
};

enum class CallableKind : uint8_t { kMacro, kFunction, kMethod };

// What can be called: a macro or a caller's block with the scope it stands in, a function of the language, a
// method of a value.
struct Callable {
  CallableKind kind = CallableKind::kFunction;
  std::string name;
  const Statement* macro = nullptr;
  const Scope* scope = nullptr;
  Value self;
};

// The variable "loop".
struct LoopState {
  std::vector<Value> items;
  size_t index = 0;
  mutable Value last;  // what changed() saw
  mutable bool seen = false;

  Value attribute(std::string_view name, const std::string* name_in_template) const;
  // loop.cycle(...), loop.changed(...).
  Value call(std::string_view name, const Arguments& arguments) const;
};

}  // namespace stoker::jinja
