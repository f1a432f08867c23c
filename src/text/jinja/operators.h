#pragma once

#include <string_view>

#include "text/jinja/budget.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// Python's operators on values. Each throws RenderError for types it is not defined for.

// Any but the comparisons and kConcatenate.
Value binary_operation(Operation operation, const Value& left, const Value& right, Budget& budget);
bool comparison(Operation operation, const Value& left, const Value& right, Budget& budget);
Value negative(const Value& value);
Value positive(const Value& value);
// Python's in.
bool contains(const Value& container, const Value& item, Budget& budget);

// value.name and value[key] as jinja2 looks them up: members first for [], methods first for '.'; what is not
// there is Undefined.
Value attribute(const Value& value, std::string_view name, const std::string* name_in_template,
                Budget& budget);
Value subscript(const Value& value, const Value& key, const std::string* name_in_template, Budget& budget);
// Absent parts are undefined or none.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget);

// The elements of a sequence, the keys of a dict, the characters of text; none of Undefined.
std::vector<Value> elements(const Value& value, Budget& budget);

// HTML escapes, as jinja2's Markup makes them.
MarkedText escaped(const MarkedText& text);

// Throws the error of a use of an undefined value.
[[noreturn]] void refuse_undefined(const Undefined& undefined);

}  // namespace stoker::jinja
