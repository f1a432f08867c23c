#pragma once

#include <cstddef>
#include <string>

#include "async/cancellation_token.h"
#include "async/task.h"
#include "async/waiter.h"

namespace stoker {

// Where clean-up goes that does not end in time. Clean-up must not be cut short by the caller's cancellation,
// and a hung one must not hold the caller for good: it gets a deadline of its own, and past it the caller
// goes on while the Quarantine keeps the task until it ends, or destroys it at the end of the run.
//
//   Quarantine quarantine(executor);
//   Task<> end_episode(Environment& environment, Quarantine& quarantine) {
//     if (!co_await quarantine.finish_or_abandon(10s, environment.close(), "close"))
//     count("environment.abandoned");
//   }
//   co_await quarantine.shut_down(5s);   // before the loop ends
//
// What the task refers to must live as long as the Quarantine: give the task ownership. Loop thread only.
class Quarantine {
 public:
  explicit Quarantine(Executor& executor) : executor_(executor) {}
  // Destroys the tasks that are still held, where they stand.
  ~Quarantine();
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  // How long the task may take. Past `limit` its token is requested with kDeadline, and `grace` after that it
  // is abandoned.
  struct Limits {
    Duration limit{};
    Duration grace{};
  };

  // What the caller's cancellation does to the task. By default: nothing, however long the limit is.
  struct OnCancellation {
    CancellationToken token;  // the caller's
    Duration grace{};         // how long after the request the task is abandoned, if not before
    bool tell_at_once =
        true;  // whether the task's own token is requested with it, or at the end of the grace
  };

  // Runs `task` under a token of its own, its first part at once. True: it ended within the limits, and
  // within the grace after a cancellation; what it threw comes out. False: it did not; it is counted and
  // kept, and what it may throw later is dropped. Does not throw Cancelled of the caller, only that of a task
  // that was told.
  Task<bool> finish_or_abandon(Duration limit, Task<void> task, std::string name = "cleanup");
  Task<bool> finish_or_abandon(Limits limits, Task<void> task, std::string name, OnCancellation cancellation);

  // Requests kShutdown of all held tasks and waits until none is left, at most `limit`. Gives how many are
  // left. One caller at a time.
  Task<size_t> shut_down(Duration limit);

  // Tasks that did not end in time, in all; and those of them that have not ended yet.
  size_t abandoned() const { return abandoned_; }
  size_t held() const { return held_; }

 private:
  class Held;
  class Hold;
  class Hurry;
  class Emptied;
  struct OwnSource;
  class Watch;

  void end(Held& held) noexcept;

  Executor& executor_;
  CancellationSource shutdown_;
  IntrusiveList<Held> tasks_;
  size_t abandoned_ = 0;
  size_t held_ = 0;
  Emptied* emptied_ = nullptr;  // who waits in shut_down
};

}  // namespace stoker
