#pragma once

#include "async/task.h"

namespace stoker {

// Small programs with a known defect of concurrency, to measure what the search over schedules finds.

// A mailbox that clears its signal after it has looked at the mail: a letter that arrives between is never
// seen. Most schedules end well; a few leave 'reader' waiting for 'mail arrived' for good.
Task<> lost_wakeup_program();

// Philosophers who each take the left fork, then the right one: all of them stuck with one fork is the
// deadlock.
Task<> deadlock_program();

}  // namespace stoker
