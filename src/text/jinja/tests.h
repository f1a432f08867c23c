#pragma once

#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// The tests of jinja2 ("x is mapping"). -1 when there is none of the name.
int find_test(std::string_view name);
// Throws RenderError.
bool apply_test(int test, const Value& value, const Arguments& arguments, Budget& budget);

}  // namespace stoker::jinja
