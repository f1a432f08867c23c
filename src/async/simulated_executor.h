#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "async/executor.h"
#include "async/timer_queue.h"
#include "base/error.h"
#include "base/random.h"

namespace stoker {

struct SimulationOptions {
  // Pieces of work in all, and at one instant of virtual time, after which the simulation is stuck: a
  // livelock.
  uint64_t step_limit = 1'000'000'000;
  uint64_t instant_step_limit = 10'000'000;
};

// A task that cannot go on, and what it waits for: "Channel.receive 'episodes'", or "ready" in a livelock.
struct StuckTask {
  std::string name;
  std::string awaits;
  bool operator==(const StuckTask&) const = default;
};

// The simulation cannot end. The sentence names kind, seed, step, virtual time and the stuck tasks.
class StuckError : public Error {
 public:
  enum class Kind { kDeadlock, kLivelock };
  StuckError(Kind kind, const std::string& sentence, std::vector<StuckTask> tasks)
      : Error(ErrorKind::kInternal, sentence), kind_(kind), tasks_(std::move(tasks)) {}

  Kind kind() const { return kind_; }
  const std::vector<StuckTask>& tasks() const { return tasks_; }

 private:
  Kind kind_;
  std::vector<StuckTask> tasks_;
};

// An executor with a virtual clock. Each step picks one piece among the ready work and the timers that are
// due, by a random stream of the seed; the clock moves on only when nothing is ready, straight to the next
// timer. The same program and seed give the same schedule on every machine; another seed gives another legal
// schedule. When nothing is ready, no timer is armed and the awaited task has not ended, run() throws a
// StuckError (deadlock, lost wake-up); past a step limit likewise (livelock). No threads: pools run their
// work on the loop at a drawn moment.
//
//   for (uint64_t seed = 0; seed < 1000; ++seed) {
//     SimulatedExecutor executor(seed);
//     run(executor, program());       // throws StuckError: "... seed 417 ... task 'main/consumer' awaits
//     ..."
//   }
class SimulatedExecutor final : public Executor {
 public:
  explicit SimulatedExecutor(uint64_t seed, const SimulationOptions& options = {});
  ~SimulatedExecutor() override;

  void post(Work work) override { ready_.push_back(std::move(work)); }
  void arm(Timer& timer, TimePoint time) override;
  TimePoint now() const override { return now_; }
  bool in_simulation() const override { return true; }
  uint64_t draw(uint64_t bound) override;
  void run_until(const bool& done) override;
  void forget(std::coroutine_handle<> handle) override;

  // Runs until nothing is ready and no timer is armed.
  void run_until_idle();

  uint64_t seed() const { return seed_; }
  uint64_t steps() const { return steps_; }
  // A fingerprint of the choices so far and the times at which they were made: equal for equal schedules.
  uint64_t schedule_digest() const { return digest_; }

 protected:
  void disarm(Timer& timer) override;

 private:
  bool step();         // false: nothing is ready and no timer is armed
  void collect_due();  // advances the clock to the next timer
  void remove_due(Timer& timer);
  void mix(uint64_t value);
  [[noreturn]] void fail(StuckError::Kind kind);

  uint64_t seed_;
  SimulationOptions options_;
  RandomStream choices_;
  TimePoint now_{};
  std::vector<Work> ready_;
  std::vector<Timer*> due_;
  TimerQueue timers_;
  uint64_t steps_ = 0;
  uint64_t instant_steps_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace stoker
