#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <string_view>

namespace stoker {
namespace {

constexpr int kStopWatching = SIGUSR2;

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, kStopWatching);
  return signals;
}

void say(std::string_view sentence) {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, sentence.data(), sentence.size());
}

}  // namespace

struct InterruptWatch::Receiver {
  std::mutex mutex;
  Executor* executor = nullptr;
  std::function<void()> on_first;
};

InterruptWatch::InterruptWatch() : receiver_(std::make_unique<Receiver>()) {
  sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread(&InterruptWatch::watch, this);
}

InterruptWatch::~InterruptWatch() {
  withdraw();
  pthread_kill(thread_.native_handle(), kStopWatching);
  thread_.join();
}

InterruptWatch::Delivery InterruptWatch::deliver_to(Executor& executor, std::function<void()> on_first) {
  std::lock_guard lock(receiver_->mutex);
  receiver_->executor = &executor;
  receiver_->on_first = std::move(on_first);
  if (interrupted_) executor.post(receiver_->on_first);
  return Delivery(*this);
}

void InterruptWatch::withdraw() {
  std::lock_guard lock(receiver_->mutex);
  receiver_->executor = nullptr;
  receiver_->on_first = nullptr;
}

void InterruptWatch::watch() {
  sigset_t signals = watched_signals();
  while (true) {
    int signal_number = 0;
    if (sigwait(&signals, &signal_number) != 0 || signal_number == kStopWatching) return;
    if (end_at_first_) {
      say("stoker: interrupted.\n");
      _exit(130);
    }
    if (interrupted_.exchange(true)) {
      say("stoker: stopped at once by a second signal; what was written before stays whole.\n");
      _exit(130);
    }
    say("stoker: interrupted, finishing cleanly; once more stops at once.\n");
    std::lock_guard lock(receiver_->mutex);
    if (receiver_->executor != nullptr) receiver_->executor->post(receiver_->on_first);
  }
}

}  // namespace stoker
