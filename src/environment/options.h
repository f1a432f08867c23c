#pragma once

#include <string>

#include "base/config.h"
#include "base/json.h"

namespace stoker {

// Reads a table of options, given as a JSON object, through the fields of a configuration struct
// (base/config.h): same types, constraints, nearest-name hints and sentences. `place` stands in front of
// them: "environment 'arithmetic': there is no key evaluation_sise; did you mean evaluation_size?".
void read_options(ConfigReader& reader, const Json& options, const std::string& place);

}  // namespace stoker
