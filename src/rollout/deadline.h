#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/cancellation.h"
#include "async/quarantine.h"
#include "async/timeout.h"

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
Task<> run_within(Duration limit, CancellationToken cancellation, Task<T> task,
                  std::shared_ptr<std::optional<T>> result) {
  *result = co_await with_timeout(limit, with_cancellation(std::move(cancellation), std::move(task)));
}

}  // namespace detail

// Runs `task`, a call into code that may hang, under the caller's cancellation and a limit of time; nullopt:
// the limit passed. A task that then does not even heed its cancellation is left to the quarantine, and the
// caller goes on: so the task must own what it touches (`outside` of an episode: its environment). What the
// task throws comes out, and Cancelled when the caller is cancelled.
template <typename T>
Task<std::optional<T>> call_within(Quarantine& quarantine, Duration limit, Task<T> task, std::string name) {
  const CancellationToken cancellation = co_await current_cancellation();
  auto result = std::make_shared<std::optional<T>>();
  const bool ended = co_await quarantine.finish_or_abandon(
      limit + kCancellationGrace, detail::run_within(limit, cancellation, std::move(task), result),
      std::move(name));
  cancellation.throw_if_requested();
  if (!ended) co_return std::nullopt;
  co_return std::move(*result);
}

}  // namespace stoker
