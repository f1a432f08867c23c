#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "async/cancellation.h"
#include "async/semaphore.h"
#include "async/sleep.h"
#include "async/task.h"
#include "async/waiter.h"

namespace stoker {

class PoolWait;

// A function on its way through a Pool, shared by the pool and the waiting task.
class PoolJob {
 public:
  virtual ~PoolJob() = default;
  virtual void execute() noexcept = 0;

 private:
  friend class Pool;
  friend class PoolWait;
  enum class State { kQueued, kRunning, kDone, kAbandoned };

  State state_ = State::kQueued;  // guarded by the pool's mutex
  int worker_ = 0;                // who runs it; guarded likewise
  Executor* executor_ = nullptr;  // where the waiting task resumes
  PoolWait* wait_ = nullptr;      // loop thread only; null when nobody waits
};

template <typename F>
class FunctionJob final : public PoolJob {
 public:
  using R = std::invoke_result_t<F&>;

  explicit FunctionJob(F function) : function_(std::move(function)) {}
  void execute() noexcept override {
    try {
      if constexpr (std::is_void_v<R>) {
        function_();
      } else {
        result_.emplace(function_());
      }
    } catch (...) {
      exception_ = std::current_exception();
    }
  }
  R take() {
    if (exception_) std::rethrow_exception(exception_);
    if constexpr (!std::is_void_v<R>) return std::move(*result_);
  }

 private:
  F function_;
  std::optional<std::conditional_t<std::is_void_v<R>, char, R>> result_;
  std::exception_ptr exception_;
};

struct PoolOptions {
  int threads = 4;  // started when first needed
  std::string name = "pool";
  // How long a cancelled task waits for its running function before it leaves the thread to it; empty: to its
  // end.
  std::optional<Duration> abandon_after;
  // So many threads may be lost to functions that do not return; one more ends the run with an
  // Error(kResource), as does a thread that cannot be replaced.
  int lost_limit = 16;
};

// Threads for functions that block or compute, reached only by co_await, so that the loop thread never does.
// First come, first served. The function must not touch what belongs to the loop thread; with abandon_after
// it must own whatever it touches. In simulation there are no threads: the function runs on the loop at a
// drawn virtual moment.
//
//   Pool blocking({.threads = 8, .name = "blocking", .abandon_after = std::chrono::seconds(10)});
//   std::string text = co_await blocking.run([path] { return read_file(path); });
//
// Cancelling takes a queued function out; a running one is waited for and its value given, unless
// abandon_after passes first: then Cancelled comes out, the thread is lost and another takes its place. A
// waiting task that is destroyed leaves its thread in the same way, at once. Does not interrupt code: what
// spins or hangs for good belongs in a process. Must outlive its users; the destructor joins the threads
// except the lost ones. One pool, one executor.
class Pool {
 public:
  explicit Pool(PoolOptions options = {});
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Runs `function` on a thread of the pool and resumes on the task's executor with what it returned or
  // threw.
  template <typename F>
  Task<std::invoke_result_t<F&>> run(F function) {
    Executor& executor = co_await current_executor();
    if (executor.in_simulation()) {
      Permit thread = co_await virtual_threads_.acquire();
      co_await shielded(sleep_for(Duration(executor.draw(kVirtualNanoseconds))));
      co_return function();
    }
    auto job = std::make_shared<FunctionJob<F>>(std::move(function));
    co_await wait_for(job);
    co_return job->take();
  }

  // Runs `function` in its turn and blocks the calling thread, which must not be one of this pool's, until it
  // is done.
  template <typename F>
  std::invoke_result_t<F&> run_blocking(F function) {
    auto job = std::make_shared<FunctionJob<F>>(std::move(function));
    block_on(job);
    return job->take();
  }

  int threads() const { return options_.threads; }
  // Threads left to functions that had not returned in time, in all.
  int lost_threads() const;
  // Functions that wait for a thread.
  size_t queued() const;

 private:
  friend class PoolWait;
  struct Shared;

  static constexpr uint64_t kVirtualNanoseconds = 1'000'000;

  Task<> wait_for(std::shared_ptr<PoolJob> job);
  void block_on(const std::shared_ptr<PoolJob>& job);
  void submit(std::shared_ptr<PoolJob> job);
  bool withdraw(PoolJob& job);  // false: a thread has it
  bool abandon(PoolJob& job);   // false: it is done
  void add_worker();            // with the mutex held; throws when the machine has no thread left
  bool start_failed() const;
  static void work(const std::shared_ptr<Shared>& shared, int worker);

  PoolOptions options_;
  std::shared_ptr<Shared> shared_;  // lost threads keep it
  Semaphore virtual_threads_;
  WaitSite site_;
};

}  // namespace stoker
