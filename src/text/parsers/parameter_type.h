#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/message.h"

namespace stoker {

// What a tool's schema says about the type of one of its parameters, for formats that write values as bare
// text.
class ParameterType {
 public:
  bool string = false;
  bool null = false;
  bool other = false;    // a number, boolean, list or object is allowed
  bool unknown = false;  // the schema allows any type

  // Whether every text is a string.
  bool is_text() const { return string && !null && !other && !unknown; }

  // The JSON text of a value written as `text`: what the types allow, else a string, which validation then
  // tells.
  std::string to_json(std::string_view text) const;
};

// The type of `parameter` of the tool `name`; a string where no such tool or parameter is known.
ParameterType parameter_type(const std::vector<ToolSchema>& tools, std::string_view name,
                             std::string_view parameter);

}  // namespace stoker
