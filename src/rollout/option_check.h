#pragma once

#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "base/error.h"

namespace stoker {

// Throws Error(kInput) naming the option when its value is less than `least`.
inline void check_at_least(const char* name, int64_t value, int64_t least) {
  if (value >= least) return;
  throw input_error(fmt::format("{} is {}; it must be at least {}.", name, value, least));
}

}  // namespace stoker
