#pragma once

#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// The filters of jinja2 that chat templates use, with its meaning. -1 when there is none of the name.
int find_filter(std::string_view name);
// Throws RenderError.
Value apply_filter(int filter, const Value& input, const Arguments& arguments, Budget& budget);

}  // namespace stoker::jinja
