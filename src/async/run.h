#pragma once

#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "async/cancellation_token.h"
#include "async/executor.h"
#include "async/task.h"

namespace stoker {

// Runs `task` on `executor` to its end; rethrows what it threw. The part of run() without a type.
void run_task(Executor& executor, Task<void> task, CancellationToken cancellation, std::string name);

namespace detail {
template <typename T>
Task<void> store_result(Task<T> task, std::optional<T>* result) {
  result->emplace(co_await std::move(task));
}
}  // namespace detail

// Drives `task` from a plain function until it has ended and gives its value; what it throws comes out. With
// a SimulatedExecutor a StuckError comes out when it can never end. That, and whatever a timer or posted work
// throws, destroys the task and all it has started where they stand, and the executor is finished.
//
//   RealExecutor executor;
//   int code = run(executor, main_task(arguments));
template <typename T>
T run(Executor& executor, Task<T> task, CancellationToken cancellation = {}, std::string name = "main") {
  if constexpr (std::is_void_v<T>) {
    run_task(executor, std::move(task), std::move(cancellation), std::move(name));
  } else {
    std::optional<T> result;
    run_task(executor, detail::store_result(std::move(task), &result), std::move(cancellation),
             std::move(name));
    return std::move(*result);
  }
}

}  // namespace stoker
