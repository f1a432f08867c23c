#pragma once

#include <utility>

#include "async/cancellation_token.h"
#include "async/task.h"

namespace stoker {

// Runs `task` so that it is cancelled by `token` as well as by the caller's own token; waits for it to end.
// What it throws, Cancelled included, comes out.
//
//   CancellationSource abort;
//   co_await with_cancellation(abort.token(), generate(request));
template <typename T>
Task<T> with_cancellation(CancellationToken token, Task<T> task) {
  TaskContext context = co_await current_context();
  CancellationSource both(context.cancellation);
  CancellationCallback forward(token, [&both](CancelReason reason) { both.request(reason); });
  context.cancellation = both.token();
  co_return co_await detail::in_context(context, std::move(task));
}

// Runs `task` as if nobody could cancel it: for clean-up. Give it a deadline of its own (timeout.h,
// quarantine.h).
template <typename T>
Task<T> shielded(Task<T> task) {
  TaskContext context = co_await current_context();
  context.cancellation = CancellationToken();
  co_return co_await detail::in_context(context, std::move(task));
}

}  // namespace stoker
