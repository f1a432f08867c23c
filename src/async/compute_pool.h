#pragma once

#include <type_traits>
#include <utility>

#include "async/parallel.h"
#include "async/pool.h"
#include "async/task.h"

namespace stoker {

// The compute pool of a process: jobs run one at a time, first come, first served, each with all threads
// through the Parallel it is given. Engine and learner take turns on it by submitting slices of a few
// milliseconds. In simulation a job runs on the loop thread at a drawn virtual moment.
//
//   ComputePool compute(2);
//   float loss = co_await compute.run([&](Parallel& parallel) { return forward(parallel, batch); });
//
// Cancelling takes a queued job out; a running one is waited for. Must outlive its users.
class ComputePool {
 public:
  // `threads` at least 1, counted with the one that runs the job.
  explicit ComputePool(int threads) : team_(threads), turns_({.threads = 1, .name = "compute"}) {}

  int threads() const { return team_.threads(); }
  // Jobs that wait for their turn.
  size_t queued() const { return turns_.queued(); }

  // Runs job(parallel) in its turn; gives what it returned or threw.
  template <typename F>
  Task<std::invoke_result_t<F&, Parallel&>> run(F job) {
    Executor& executor = co_await current_executor();
    Parallel* parallel = executor.in_simulation() ? static_cast<Parallel*>(&serial_) : &team_;
    co_return co_await turns_.run(Job<F>{std::move(job), parallel});
  }

  // The same for code without a loop: blocks the calling thread. Not from inside a job.
  template <typename F>
  std::invoke_result_t<F&, Parallel&> run_blocking(F job) {
    return turns_.run_blocking(Job<F>{std::move(job), &team_});
  }

 private:
  template <typename F>
  struct Job {
    F function;
    Parallel* parallel;
    std::invoke_result_t<F&, Parallel&> operator()() { return function(*parallel); }
  };

  ThreadTeam team_;
  SerialParallel serial_;
  Pool turns_;
};

}  // namespace stoker
