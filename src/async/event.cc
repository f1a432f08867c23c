#include "async/event.h"

namespace stoker {

class Event::Awaiter final : public Waiter {
 public:
  explicit Awaiter(Event& event) : event_(event) {}
  bool await_ready() const { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    if (event_.set_ && !handle.promise().context().cancellation.requested()) return false;
    if (!begin(handle, event_.waiters_.site())) return false;
    event_.waiters_.push_back(*this);
    return true;
  }
  void await_resume() { finish(); }

 private:
  Event& event_;
};

void Event::set() {
  set_ = true;
  while (!waiters_.empty()) waiters_.front().wake();
}

Task<> Event::wait() { co_await Awaiter(*this); }

}  // namespace stoker
