#pragma once

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// The filters on sequences, with jinja2's arguments; filters.cc names them.
Value join_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value list_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value first_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value last_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value reverse_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value sort_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value unique_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value dictsort_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value sum_filter(const Value& input, const Arguments& arguments, Budget& budget);
Value extreme_filter(const Value& input, const Arguments& arguments, Budget& budget, bool largest);
Value map_filter(const Value& input, const Arguments& arguments, Budget& budget);
// select, reject, selectattr, rejectattr: keeps what the test says `keeps` of, itself or its attribute.
Value select_filter(const Value& input, const Arguments& arguments, Budget& budget, bool keeps,
                    bool by_attribute);

}  // namespace stoker::jinja
