#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace stoker {

// JSON as Python's json.dumps(value, ensure_ascii=False) prints it, which is what chat templates do with
// tools and arguments: ", " and ": " between the parts, floats in Python's repr.
std::string python_json(const Json& value);

// Length of the JSON object or array at the start of `text` (which must begin with '{' or '['), found by its
// brackets and strings alone; nothing when it does not end. What lies inside need not be valid.
std::optional<size_t> json_extent(std::string_view text);

}  // namespace stoker
