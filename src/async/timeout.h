#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "async/cancellation_token.h"
#include "async/sleep.h"
#include "async/task.h"

namespace stoker {
namespace detail {

// The context of a task with a deadline: cancelled by the outer one, or with kDeadline when the time has
// come.
class DeadlineContext final : private CancellationNode, private Timer {
 public:
  DeadlineContext(TaskContext& outer, TimePoint deadline);

  TaskContext& inner() { return inner_; }
  // For who caught Cancelled from within: throws the outer context's cancellation if there is one, and
  // otherwise tells whether the deadline has passed.
  bool passed() const {
    outer_.cancellation.throw_if_requested();
    return inner_.cancellation.requested();
  }

 private:
  void on_cancel(CancelReason reason) override;
  void fire() override;

  TaskContext& outer_;
  TaskContext inner_;
};

template <typename T>
using Limited = std::conditional_t<std::is_void_v<T>, bool, std::optional<T>>;

// One coroutine for both forms, so that a waiting task holds one frame less. kRelative: `limit` counts
// from the start of this task; otherwise it is a time of the executor's clock.
template <bool kRelative, typename T>
Task<Limited<T>> with_limit(Duration limit, Task<T> task) {
  TaskContext& outer = co_await current_context();
  DeadlineContext context(outer, (kRelative ? outer.executor->now() : TimePoint{}) + limit);
  try {
    if constexpr (std::is_void_v<T>) {
      co_await in_context(context.inner(), std::move(task));
      co_return true;
    } else {
      co_return co_await in_context(context.inner(), std::move(task));
    }
  } catch (const Cancelled&) {
    if (!context.passed()) throw;
  }
  co_return Limited<T>{};
}

}  // namespace detail

// Runs `task` with a limit of time. At the limit the task is cancelled with kDeadline; then this waits for it
// to end, so nothing of it runs afterwards (a task that does not heed cancellation delays the caller: see
// quarantine.h). Gives the task's value, or nullopt (for a task without value: false) when the deadline ended
// it. A task that returns in spite of the cancellation has its value kept. The caller's own cancellation
// still comes out as Cancelled, and any other exception as it is.
//
//   std::optional<Completion> completion = co_await with_timeout(30s, engine.generate(request));
//   if (!completion) co_return Failure{FailureClass::kLimit, "timeout", "..."};
template <typename T>
Task<detail::Limited<T>> with_timeout(Duration limit, Task<T> task) {
  return detail::with_limit<true>(limit, std::move(task));
}

// The same with the limit as a time of the executor's clock.
template <typename T>
Task<detail::Limited<T>> with_deadline(TimePoint deadline, Task<T> task) {
  return detail::with_limit<false>(deadline.time_since_epoch(), std::move(task));
}

}  // namespace stoker
