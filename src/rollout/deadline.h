#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/cancellation.h"
#include "async/quarantine.h"
#include "async/timeout.h"
#include "base/error.h"
#include "base/result.h"

namespace stoker {

// Throws Error(kInput) naming `field` unless `seconds` is above zero (infinite: no limit).
void check_limit_seconds(const char* field, double seconds);

// A limit of time as a Duration; infinity becomes a time that no run sees the end of.
Duration limit_from_seconds(double seconds);

// How long a call into the world outside may go on after its deadline or its cancellation before it is
// abandoned.
constexpr Duration kCancellationGrace = std::chrono::seconds(5);

namespace detail {

template <typename T>
Task<> run_into(Task<T> task, std::shared_ptr<std::optional<T>> result) {
  *result = co_await std::move(task);
}

}  // namespace detail

// A call into code of an environment, tool or reward, for its failures and for reports of stuck tasks.
struct OutsideCall {
  FailureClass failure_class = FailureClass::kEnvironment;
  const char* task = "";     // short: "tool"
  const char* subject = "";  // begins a sentence: "The tool"
  std::string_view name;     // follows in quotes; empty: none. Must live as long as the caller
  double limit_seconds = 0;

  Failure timeout() const;
  Failure exception(std::string_view what) const;
};

// Runs `call`, code that may hang or throw, under the caller's cancellation and a limit of time. A limit that
// passes is the failure "timeout" of the class, an exception "exception". A call that does not even heed its
// cancellation is left to the quarantine kCancellationGrace after it, and the caller goes on: so the call
// must own what it touches. Throws Cancelled when the caller is cancelled, and what the call threw as
// Error(kResource): the machine lacks something, and no other episode would fare better.
template <typename T>
Task<Result<T>> call_outside(Quarantine& quarantine, OutsideCall about, Task<Result<T>> call) {
  const CancellationToken cancellation = co_await current_cancellation();
  const Duration limit = limit_from_seconds(about.limit_seconds);
  auto result = std::make_shared<std::optional<Result<T>>>();
  std::string thrown;
  try {
    co_await quarantine.finish_or_abandon({.limit = limit, .grace = kCancellationGrace},
                                          detail::run_into(std::move(call), result), about.task,
                                          {.token = cancellation, .grace = kCancellationGrace});
    cancellation.throw_if_requested();
    if (*result) co_return std::move(**result);
    co_return about.timeout();
  } catch (const Cancelled& cancelled) {
    cancellation.throw_if_requested();
    if (cancelled.reason() == CancelReason::kDeadline) co_return about.timeout();
    thrown = cancelled.what();
  } catch (const Error& error) {
    cancellation.throw_if_requested();
    if (error.kind() == ErrorKind::kResource) throw;
    thrown = error.what();
  } catch (const std::exception& exception) {
    cancellation.throw_if_requested();
    thrown = exception.what();
  } catch (...) {
    thrown = "something that is no std::exception";
  }
  co_return about.exception(thrown);
}

}  // namespace stoker
