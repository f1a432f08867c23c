#pragma once

#include "async/executor.h"
#include "async/task.h"

namespace stoker {

// Suspends the task until `time` of its executor's clock; a time that has passed still lets other work run.
// Cancellable; the timer costs nothing after a cancellation.
//
//   co_await sleep_for(std::chrono::seconds(5));
Task<> sleep_until(TimePoint time);
Task<> sleep_for(Duration duration);

// Lets other ready work run: for a loop that may find everything ready for long.
Task<> yield_now();

}  // namespace stoker
