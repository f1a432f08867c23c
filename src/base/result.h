#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"

namespace stoker {

// The area of the world an expected failure belongs to (DESIGN section 3, Trajectory).
enum class FailureClass { kPolicy, kLimit, kTool, kEnvironment, kReward, kInfrastructure };

// "policy", "limit", "tool", "environment", "reward", "infrastructure".
const char* to_string(FailureClass failure_class);
// The reverse; empty when the name is unknown.
std::optional<FailureClass> failure_class_from_string(const std::string& name);

// An expected failure as a value: what kind, a short reason that is counted ("timeout", "exception",
// "context_length"), and one sentence for people.
struct Failure {
  FailureClass failure_class = FailureClass::kInfrastructure;
  std::string reason;
  std::string message;

  // "environment.timeout": the name under which the failure is counted and logged.
  std::string name() const { return std::string(to_string(failure_class)) + "." + reason; }
  bool operator==(const Failure&) const = default;
};

// A value or a Failure. Accessing the wrong side throws Error(kInternal).
//
//   Result<int> parsed = parse(text);
//   if (!parsed) return parsed.failure();
//   use(*parsed);
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  explicit operator bool() const { return state_.index() == 0; }
  bool ok() const { return state_.index() == 0; }

  T& value() & {
    check();
    return std::get<0>(state_);
  }
  const T& value() const& {
    check();
    return std::get<0>(state_);
  }
  T&& value() && {
    check();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Failure& failure() const {
    if (ok()) throw internal_error("Result::failure was asked of a Result that holds a value.");
    return std::get<1>(state_);
  }

 private:
  void check() const {
    if (!ok()) throw internal_error("Result::value was asked of a failure: " + std::get<1>(state_).message);
  }

  std::variant<T, Failure> state_;
};

// The Result of an operation that returns nothing.
struct Done {
  bool operator==(const Done&) const = default;
};

}  // namespace stoker
