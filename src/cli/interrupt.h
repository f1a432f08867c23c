#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "async/executor.h"

namespace stoker {

// Ctrl-C and SIGTERM. The first asks the run to finish cleanly: `on_first` runs on the loop thread. The
// second ends the process at once with status 130 and one sentence. Made before any other thread starts,
// because threads inherit the blocked signal mask.
//
//   InterruptWatch interrupts;
//   RealExecutor executor;
//   auto delivery = interrupts.deliver_to(executor, [&] { trainer.request_stop(); });
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // While this lives, the first signal is posted to its receiver; after its end nothing is.
  class Delivery {
   public:
    explicit Delivery(InterruptWatch& watch) : watch_(&watch) {}
    Delivery(Delivery&& other) noexcept : watch_(std::exchange(other.watch_, nullptr)) {}
    Delivery& operator=(Delivery&&) = delete;
    ~Delivery() {
      if (watch_ != nullptr) watch_->withdraw();
    }

   private:
    InterruptWatch* watch_;
  };

  // One receiver at a time; `executor` and what `on_first` refers to must outlive the Delivery. A signal that
  // came before is delivered at once.
  [[nodiscard]] Delivery deliver_to(Executor& executor, std::function<void()> on_first);

  // For work that has nothing to finish or to save: from now on the first signal ends the process too.
  void end_at_first() { end_at_first_ = true; }

  bool interrupted() const { return interrupted_; }

 private:
  struct Receiver;
  void watch();
  void withdraw();

  std::atomic<bool> interrupted_ = false;
  std::atomic<bool> end_at_first_ = false;
  std::unique_ptr<Receiver> receiver_;
  std::thread thread_;
};

}  // namespace stoker
