#include "async/quarantine.h"

#include <exception>
#include <utility>

#include "async/root_task.h"

namespace stoker {
namespace {
constexpr WaitSite kWatch{"Quarantine", {}};
}  // namespace

// Waits, whatever the caller's token says, until woken or until a time, which may be made earlier.
class Quarantine::Watch final : public Waiter, private Timer {
 public:
  explicit Watch(TimePoint time) : time_(time) {}

  bool await_ready() const { return false; }
  template <typename Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin(handle, kWatch, Shield::kShielded);
    context().executor->arm(*this, time_);
  }
  void await_resume() {
    disarm();
    finish();
  }
  void shorten(TimePoint time) {
    if (time >= time_) return;
    time_ = time;
    if (!armed()) return;  // not waiting yet, or woken already
    disarm();
    context().executor->arm(*this, time_);
  }

 private:
  void fire() override { wake(); }

  TimePoint time_;
};

struct Quarantine::OwnSource {
  explicit OwnSource(const CancellationToken& parent) : source(parent) {}
  CancellationSource source;
};

// One piece of clean-up: watched by its caller at first, on its own once abandoned.
class Quarantine::Held final : private OwnSource, public RootTask, public ListHook<Held> {
 public:
  Held(Quarantine& quarantine, Task<void> task, std::string name)
      : OwnSource(quarantine.shutdown_.token()),
        RootTask(quarantine.executor_, source.token(), std::move(task), std::move(name)),
        quarantine_(quarantine) {}

  using RootTask::exception;
  void watch(Watch* watch) { watch_ = watch; }
  bool ended() const { return ended_; }
  void cancel(CancelReason reason) { source.request(reason); }

 private:
  void finished() noexcept override {
    ended_ = true;
    if (watch_ != nullptr) {
      watch_->wake();
    } else {
      quarantine_.end(*this);
    }
  }

  Quarantine& quarantine_;
  Watch* watch_ = nullptr;
  bool ended_ = false;
};

// The caller's hold on its clean-up; lets go on every way out of the wait, destruction of the caller
// included.
class Quarantine::Hold {
 public:
  Hold(Held& held, Watch& watch) : held_(held) { held_.watch(&watch); }
  ~Hold() {
    held_.watch(nullptr);
    if (held_.ended()) delete &held_;
  }

 private:
  Held& held_;
};

Quarantine::~Quarantine() {
  const bool tearing_down = executor_.tear_down(true);
  while (!tasks_.empty()) delete &tasks_.front();
  executor_.tear_down(tearing_down);
}

void Quarantine::end(Held& held) noexcept {
  delete &held;
  if (--held_ == 0 && emptied_ != nullptr) emptied_->wake();
}

Task<bool> Quarantine::finish_or_abandon(Duration limit, Task<void> task, std::string name) {
  return finish_or_abandon(limit, std::move(task), std::move(name), {});
}

Task<bool> Quarantine::finish_or_abandon(Duration limit, Task<void> task, std::string name,
                                         OnCancellation cancellation) {
  Held& held = *new Held(*this, std::move(task), std::move(name));
  tasks_.push_back(held);
  held.start();
  Watch watch(executor_.now() + limit);
  Hold hold(held, watch);
  {
    const CancellationCallback hurry(cancellation.token, [&](CancelReason reason) {
      watch.shorten(executor_.now() + cancellation.grace);
      if (cancellation.tell_at_once) held.cancel(reason);
    });
    co_await watch;
  }
  if (held.ended()) {
    if (held.exception()) std::rethrow_exception(held.exception());
    co_return true;
  }
  ++abandoned_;
  ++held_;
  held.cancel(CancelReason::kDeadline);
  co_return false;
}

Task<size_t> Quarantine::shut_down(Duration limit) {
  shutdown_.request(CancelReason::kShutdown);
  if (held_ > 0) {
    Watch watch(executor_.now() + limit);
    emptied_ = &watch;
    co_await watch;
    emptied_ = nullptr;
  }
  co_return held_;
}

}  // namespace stoker
