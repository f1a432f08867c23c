#include "rollout/deadline.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/error.h"

namespace stoker {
namespace {

constexpr double kForeverSeconds = 1e9;  // 31 years; sums with it stay far within the clock's range

}  // namespace

void check_limit_seconds(const char* field, double seconds) {
  if (std::isnan(seconds) || seconds <= 0) {
    throw input_error(fmt::format("{} is {}; it must be a number of seconds above 0, or inf for no limit.",
                                  field, seconds));
  }
}

std::string seconds_text(double seconds) { return fmt::format("{} s", seconds); }

Duration limit_from_seconds(double seconds) { return from_seconds(std::min(seconds, kForeverSeconds)); }

}  // namespace stoker
