#pragma once

#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/text_operations.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// Methods of text, lists and dicts as Python has them. Those that would change a value are methods too, and
// refused when they are called.
bool is_method(const Value& value, std::string_view name);
Value make_method(const Value& value, std::string_view name);
Value call_method(const Value& value, std::string_view name, const Arguments& arguments, Budget& budget);

}  // namespace stoker::jinja
