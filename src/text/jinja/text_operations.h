#pragma once

#include <cstdint>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/marked_text.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// What Python's text methods and jinja2's filters share. All keep the sources of what they keep.

MarkedText strip(const MarkedText& text, const Value* characters, bool left, bool right);
// At most `count` occurrences; negative: all.
MarkedText replace(const MarkedText& text, const MarkedText& old_text, const MarkedText& new_text,
                   int64_t count, Budget& budget);
MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText swap_case(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);
// `by_words`: str.title(), a capital after each character that is no letter. Otherwise jinja2's filter, a
// capital after blanks and opening brackets.
MarkedText title(const MarkedText& text, bool by_words);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
MarkedText join(const MarkedText& separator, const std::vector<Value>& items, Budget& budget);

}  // namespace stoker::jinja
