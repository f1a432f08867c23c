#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace stoker::jinja {

// All text of the value gets the source. Of members of one name the last value stands, at the first one's
// place.
Value from_json(const Json& json, Source source);
// Same from JSON text, as Python's json.loads reads it: integers beyond 64 bits keep their digits.
Result<Value> parse_json_value(std::string_view text, Source source);
// A copy in which all text has the source.
Value with_source(const Value& value, Source source);

struct JsonFormat {
  int64_t indent = -1;  // blanks a level; negative: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

// What Python's json.dumps prints. Throws RenderError for what JSON cannot hold.
MarkedText to_json_text(const Value& value, const JsonFormat& format, Budget& budget);

}  // namespace stoker::jinja
