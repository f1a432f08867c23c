#include "async/quarantine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "async/root_task.h"

namespace stoker {
namespace {
constexpr WaitSite kWatch{"Quarantine", {}};
}  // namespace

struct Quarantine::OwnSource {
  explicit OwnSource(const CancellationToken& parent) : source(parent) {}
  CancellationSource source;
};

// One piece of clean-up: watched by its caller at first, on its own once abandoned.
class Quarantine::Held final : private OwnSource, public RootTask, public ListHook<Held>, public FrameMemory {
 public:
  Held(Quarantine& quarantine, Task<void> task, std::string name)
      : OwnSource(quarantine.shutdown_.token()),
        RootTask(quarantine.executor_, source.token(), std::move(task), std::move(name), running_task_name()),
        quarantine_(quarantine) {}

  using RootTask::exception;
  void watch(Watch* watch) { watch_ = watch; }
  bool ended() const { return ended_; }
  void cancel(CancelReason reason) { source.request(reason); }

 private:
  void finished() noexcept override;

  Quarantine& quarantine_;
  Watch* watch_ = nullptr;
  bool ended_ = false;
};

// The caller's wait for one task, whatever its token says: until the task has ended, or is to be abandoned.
// Tells the task when its limit has passed.
class Quarantine::Watch final : public Waiter, private Timer {
 public:
  Watch(Held& held, TimePoint limit, Duration grace) : held_(held), limit_(limit), end_(limit + grace) {}

  bool await_ready() const { return held_.ended(); }
  template <typename Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    begin(handle, kWatch, Shield::kShielded);
    context().executor->arm(*this, limit_);
  }
  void await_resume() {
    disarm();
    finish();
  }
  // The task is abandoned at `end` if not before.
  void shorten(TimePoint end) {
    if (end >= end_) return;
    end_ = end;
    limit_ = std::min(limit_, end);
    if (!armed()) return;  // not waiting yet, or woken already
    disarm();
    context().executor->arm(*this, told_ ? end_ : limit_);
  }

 private:
  void fire() override {
    if (told_ || end_ == limit_) return wake();  // who abandons the task tells it
    told_ = true;
    held_.cancel(CancelReason::kDeadline);
    context().executor->arm(*this, end_);
  }

  Held& held_;
  TimePoint limit_;
  TimePoint end_;
  bool told_ = false;
};

void Quarantine::Held::finished() noexcept {
  ended_ = true;
  if (watch_ != nullptr) {
    watch_->wake();
  } else {
    quarantine_.end(*this);
  }
}

// Passes the caller's cancellation on.
class Quarantine::Hurry final : private CancellationNode {
 public:
  Hurry(Quarantine& quarantine, Held& held, Watch& watch, const OnCancellation& cancellation)
      : quarantine_(quarantine), held_(held), watch_(watch), cancellation_(cancellation) {
    cancellation.token.subscribe(*this);
  }

 private:
  void on_cancel(CancelReason reason) override {
    watch_.shorten(quarantine_.executor_.now() + cancellation_.grace);
    if (cancellation_.tell_at_once) held_.cancel(reason);
  }

  Quarantine& quarantine_;
  Held& held_;
  Watch& watch_;
  const OnCancellation& cancellation_;
};

// The caller's hold on its clean-up; lets go on every way out of the wait, destruction of the caller
// included. What has not ended by then is held by the quarantine.
class Quarantine::Hold {
 public:
  Hold(Quarantine& quarantine, Held& held, Watch& watch) : quarantine_(quarantine), held_(held) {
    held_.watch(&watch);
  }
  ~Hold() {
    held_.watch(nullptr);
    if (held_.ended()) {
      delete &held_;
    } else {
      ++quarantine_.held_;
    }
  }

 private:
  Quarantine& quarantine_;
  Held& held_;
};

// The wait for the last held task, up to a time.
class Quarantine::Emptied final : public Waiter, private Timer {
 public:
  explicit Emptied(TimePoint time) : time_(time) {}

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

 private:
  void fire() override { wake(); }

  TimePoint time_;
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
  return finish_or_abandon({.limit = limit}, std::move(task), std::move(name), {});
}

Task<bool> Quarantine::finish_or_abandon(Limits limits, Task<void> task, std::string name,
                                         OnCancellation cancellation) {
  Held& held = *new Held(*this, std::move(task), std::move(name));
  tasks_.push_back(held);
  Watch watch(held, executor_.now() + limits.limit, limits.grace);
  Hold hold(*this, held, watch);
  {
    Hurry hurry(*this, held, watch, cancellation);
    held.run();
    co_await watch;
  }
  if (held.ended()) {
    if (held.exception()) std::rethrow_exception(held.exception());
    co_return true;
  }
  ++abandoned_;
  held.cancel(CancelReason::kDeadline);
  co_return false;
}

Task<size_t> Quarantine::shut_down(Duration limit) {
  shutdown_.request(CancelReason::kShutdown);
  if (held_ > 0) {
    Emptied emptied(executor_.now() + limit);
    emptied_ = &emptied;
    co_await emptied;
    emptied_ = nullptr;
  }
  co_return held_;
}

}  // namespace stoker
