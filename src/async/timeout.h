#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "async/cancellation_token.h"
#include "async/sleep.h"
#include "async/task.h"

namespace stoker {

// Requests a source with kDeadline at a time of the executor's clock, unless destroyed before.
class DeadlineTimer final : private Timer {
 public:
  DeadlineTimer(Executor& executor, TimePoint time, CancellationSource& source) : source_(source) {
    executor.arm(*this, time);
  }
  bool passed() const { return passed_; }

 private:
  void fire() override {
    passed_ = true;
    source_.request(CancelReason::kDeadline);
  }

  CancellationSource& source_;
  bool passed_ = false;
};

// Runs `task` with a limit of time. At the limit the task is cancelled with kDeadline; then this waits for it
// to end, so nothing of it runs afterwards (a task that does not heed cancellation delays the caller: see
// quarantine.h). Gives the task's value, or nullopt (for a task without value: false) when the deadline ended
// it. A task that returns in spite of the cancellation has its value kept. The caller's own cancellation
// still comes out as Cancelled, and any other exception as it is.
//
//   std::optional<Completion> completion = co_await with_timeout(30s, engine.generate(request));
//   if (!completion) co_return Failure{FailureClass::kLimit, "timeout", "..."};
template <typename T>
Task<std::conditional_t<std::is_void_v<T>, bool, std::optional<T>>> with_deadline(TimePoint deadline,
                                                                                  Task<T> task) {
  TaskContext context = co_await current_context();
  const CancellationToken outer = context.cancellation;
  CancellationSource source(outer);
  context.cancellation = source.token();
  DeadlineTimer timer(*context.executor, deadline, source);
  try {
    if constexpr (std::is_void_v<T>) {
      co_await detail::in_context(context, std::move(task));
      co_return true;
    } else {
      co_return co_await detail::in_context(context, std::move(task));
    }
  } catch (const Cancelled&) {
    outer.throw_if_requested();
    if (!timer.passed()) throw;
  }
  if constexpr (std::is_void_v<T>) {
    co_return false;
  } else {
    co_return std::nullopt;
  }
}

template <typename T>
Task<std::conditional_t<std::is_void_v<T>, bool, std::optional<T>>> with_timeout(Duration limit,
                                                                                 Task<T> task) {
  Executor& executor = co_await current_executor();
  co_return co_await with_deadline(executor.now() + limit, std::move(task));
}

}  // namespace stoker
