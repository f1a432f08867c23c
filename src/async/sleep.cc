#include "async/sleep.h"

#include "async/waiter.h"

namespace stoker {
namespace {

constexpr WaitSite kSleep{"sleep", {}};
constexpr WaitSite kYield{"yield", {}};

class SleepAwaiter final : public Waiter, private Timer {
 public:
  explicit SleepAwaiter(TimePoint time) : time_(time) {}
  bool await_ready() const { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    if (!begin(handle, kSleep)) return false;
    context().executor->arm(*this, time_);
    return true;
  }
  void await_resume() { finish(); }

 private:
  void fire() override { wake(); }
  void cancelled() override { disarm(); }

  TimePoint time_;
};

class YieldAwaiter final : public Waiter {
 public:
  bool await_ready() const { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    if (!begin(handle, kYield)) return false;
    wake();
    return true;
  }
  void await_resume() { finish(); }
};

}  // namespace

Task<> sleep_until(TimePoint time) { co_await SleepAwaiter(time); }

Task<> sleep_for(Duration duration) {
  Executor& executor = co_await current_executor();
  co_await SleepAwaiter(executor.now() + duration);
}

Task<> yield_now() { co_await YieldAwaiter(); }

}  // namespace stoker
