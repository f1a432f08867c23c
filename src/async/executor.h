#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <utility>

#include "async/task_record.h"
#include "async/work.h"
#include "base/error.h"

namespace stoker {

// Time as every area above knows it: nanoseconds since the executor was made. Virtual in simulation.
struct ExecutorClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<ExecutorClock, duration>;
  static constexpr bool is_steady = true;
};
using Duration = ExecutorClock::duration;
using TimePoint = ExecutorClock::time_point;

// So long that it stands for "without a limit", and so short that now() plus it is still a TimePoint: 146
// years.
constexpr Duration kLongestDuration = Duration::max() / 2;

// Seconds as a configuration or a log holds them, infinity included; at most kLongestDuration either way.
// Throws Error(kInternal) for what is no number.
constexpr Duration from_seconds(double seconds) {
  if (seconds != seconds) throw internal_error("A duration in seconds is not a number.");
  const double nanoseconds = seconds * 1e9;
  const auto longest = static_cast<double>(kLongestDuration.count());
  if (nanoseconds >= longest) return kLongestDuration;
  if (nanoseconds <= -longest) return -kLongestDuration;
  return Duration(static_cast<int64_t>(nanoseconds));
}
constexpr double to_seconds(Duration duration) { return static_cast<double>(duration.count()) * 1e-9; }
constexpr double to_seconds(TimePoint time) { return to_seconds(time.time_since_epoch()); }

class Executor;

// A timer that lives inside whoever waits. Armed with Executor::arm; disarming costs O(log n) of the armed
// timers and leaves nothing behind. The destructor disarms. Loop thread only.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  virtual ~Timer() { disarm(); }

  bool armed() const { return executor_ != nullptr; }
  void disarm();

 private:
  friend class Executor;
  friend class TimerQueue;
  friend class RealExecutor;
  friend class SimulatedExecutor;

  // The time has come; the timer is no longer armed. May destroy this.
  virtual void fire() = 0;

  Executor* executor_ = nullptr;
  uint32_t position_ = 0;  // in the executor's heap, or in its list of due timers
  bool due_ = false;
};

// Where work runs: one loop thread, one clock. All tasks of a run share one Executor; time, order and delay
// come from it alone, so that the simulated one (SimulatedExecutor) can replay them and the real one
// (RealExecutor) can wait for the machine. It does not own tasks: whoever starts them (Scope, run) does.
//
//   executor.post([] { step(); });
//   auto timer = executor.post_at(executor.now() + 5s, [] { give_up(); });
//   timer.reset();   // cancelled, nothing remains
//
// Loop thread only, except post() of RealExecutor, which any thread may call.
class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor();

  // Runs `work` later, on the loop thread. Real: in order of arrival; simulated: in seeded order.
  virtual void post(Work work) = 0;

  // Runs `work` at `time` or later; the returned owner cancels it when destroyed.
  [[nodiscard]] std::unique_ptr<Timer> post_at(TimePoint time, Work work);

  // Arms a timer that is not armed. Timers with equal times fire in order of arming (simulated: in seeded
  // order).
  virtual void arm(Timer& timer, TimePoint time) = 0;

  virtual TimePoint now() const = 0;
  virtual bool in_simulation() const = 0;

  // A seeded choice in [0, bound) in simulation, 0 otherwise: for delays that only simulation makes up.
  virtual uint64_t draw(uint64_t bound) = 0;

  // Runs work until `done` is true. The simulated one throws StuckError when that cannot happen.
  virtual void run_until(const bool& done) = 0;

  // Takes back the posted resumption of a coroutine that is being destroyed. O(ready work).
  virtual void forget(std::coroutine_handle<> handle) = 0;

  // Tasks are destroyed where they stand instead of being joined: set for good when run() fails with
  // tasks left, for a while by who destroys suspended tasks on purpose.
  bool tearing_down() const { return tearing_down_; }
  // Gives the former state.
  bool tear_down(bool on = true) { return std::exchange(tearing_down_, on); }

  // Started tasks that have not ended, in order of start.
  const IntrusiveList<TaskRecord>& tasks() const { return tasks_; }
  IntrusiveList<TaskRecord>& tasks() { return tasks_; }

 protected:
  // Takes an armed timer out; its `executor_` is cleared by the caller.
  virtual void disarm(Timer& timer) = 0;

 private:
  friend class Timer;

  IntrusiveList<TaskRecord> tasks_;
  bool tearing_down_ = false;
};

}  // namespace stoker
