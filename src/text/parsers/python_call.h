#pragma once

#include <span>
#include <string_view>

#include "text/parsers/turn_scan.h"

namespace stoker {

// Whether a call name(argument=value, ...) stands at `place`: it shows in the name, the bracket and the first
// argument's name or the closing bracket. Values without a name count when the name is that of a tool, or
// when the place is `listed` behind another call.
Reading<bool> at_python_call(TurnScan& scan, size_t place, bool listed = false);

// Reads the call at the place read up to, from opening it to closing it. What is broken in it is a problem,
// and reading goes on behind the bracket that ends it, or at one of `stops`. `raw_begin` is where its text
// starts. `method`: the name may end in ".call", which is not part of it.
Reading<bool> read_python_call(TurnScan& scan, size_t raw_begin, std::span<const std::string_view> stops,
                               bool method = false);

// Reads calls split by commas, blanks or ';' up to `closing`, which is consumed, or to where no call stands.
// 0: no closing bracket. False: the text or the line of calls ended otherwise.
Reading<bool> read_python_calls(TurnScan& scan, char closing, std::span<const std::string_view> stops);

}  // namespace stoker
