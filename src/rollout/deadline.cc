#include "rollout/deadline.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/error.h"

namespace stoker {
namespace {

constexpr double kForeverSeconds = 1e9;  // 31 years; sums with it stay far within the clock's range

std::string described(const OutsideCall& call) {
  return call.name.empty() ? std::string(call.subject) : fmt::format("{} '{}'", call.subject, call.name);
}

}  // namespace

void check_limit_seconds(const char* field, double seconds) {
  if (std::isnan(seconds) || seconds <= 0) {
    throw input_error(fmt::format("{} is {}; it must be a number of seconds above 0, or inf for no limit.",
                                  field, seconds));
  }
}

Duration limit_from_seconds(double seconds) { return from_seconds(std::min(seconds, kForeverSeconds)); }

Failure OutsideCall::timeout() const {
  return {failure_class, "timeout",
          fmt::format("{} did not end within {} s.", described(*this), limit_seconds)};
}

Failure OutsideCall::exception(std::string_view what) const {
  return {failure_class, "exception", fmt::format("{} threw: {}", described(*this), what)};
}

}  // namespace stoker
