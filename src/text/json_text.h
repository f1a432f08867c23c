#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"

namespace stoker {

// JSON as Python's json.dumps(value, ensure_ascii=False) prints it, which is what chat templates do with
// tools and arguments: ", " and ": " between the parts, floats in Python's repr.
std::string python_json(const Json& value);

// What scan_json found at the start of a text.
struct JsonScan {
  enum class Status { kComplete, kIncomplete, kInvalid };

  Status status = Status::kInvalid;
  // Complete: one past the value's last byte. Incomplete: the text's size. Invalid: the first byte that
  // cannot be part of the value.
  size_t position = 0;
  const char* reason = "";  // what was expected there, a clause: "a colon was expected"
};

// Reads one JSON value (RFC 8259) at the very start of `text` and says where it ends; what follows does not
// matter. A number at the end of the text is incomplete, since digits could follow. Nesting is limited to 128
// levels.
JsonScan scan_json(std::string_view text);

// A valid JSON text on one line, with blanks between its parts where python_json has them; everything else
// stays as it is written.
std::string one_line_json(std::string_view text);

// `value` with each member name once, the last value kept at the first place, as Python's json.loads reads
// it.
Json without_duplicates(Json value);

}  // namespace stoker
