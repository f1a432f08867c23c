#pragma once

#include <memory>

#include "async/executor.h"

namespace boost::asio {
class io_context;
}

namespace stoker {

// The executor of a running program: the calling thread is the loop, the clock is the machine's monotonic
// one, and waiting for timers and for the system goes through Boost.Asio. Ready work runs in order of
// arrival.
//
//   RealExecutor executor;
//   run(executor, main_task());
//
// post() may be called by any thread, everything else only by the loop thread: the one that runs it, before
// that the one that made it. Does not find deadlocks: waiting without end may mean waiting for a person.
class RealExecutor final : public Executor {
 public:
  RealExecutor();
  ~RealExecutor() override;

  void post(Work work) override;
  void arm(Timer& timer, TimePoint time) override;
  TimePoint now() const override;
  bool in_simulation() const override { return false; }
  uint64_t draw(uint64_t bound) override { return 0; }
  void run_until(const bool& done) override;
  void forget(std::coroutine_handle<> handle) override;

  // Runs until no task is unfinished, nothing is ready and no timer is armed.
  void run_until_idle();

  // For sources that do I/O: their handlers run on the loop thread between pieces of work.
  boost::asio::io_context& io_context();

 protected:
  void disarm(Timer& timer) override;

 private:
  struct Loop;

  template <typename Stop>
  void run_loop(const Stop& stop);

  std::unique_ptr<Loop> loop_;
};

}  // namespace stoker
