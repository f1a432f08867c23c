#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "async/executor.h"

namespace stoker {

// Ctrl-C and SIGTERM. The first asks the run to finish cleanly: `on_first` runs on the loop thread. The
// second ends the process at once with status 130 and one sentence. Made before any other thread starts,
// because threads inherit the blocked signal mask.
//
//   InterruptWatch interrupts;
//   RealExecutor executor;
//   interrupts.deliver_to(executor, [&] { trainer.request_stop(); });
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Replaces the receiver; `executor` must outlive the watch or a later withdraw().
  void deliver_to(Executor& executor, std::function<void()> on_first);
  // After this returns nothing is posted any more.
  void withdraw();

  bool interrupted() const { return interrupted_->load(); }

 private:
  struct Receiver;
  void watch();

  std::shared_ptr<std::atomic<bool>> interrupted_;
  std::unique_ptr<Receiver> receiver_;
  std::thread thread_;
};

}  // namespace stoker
