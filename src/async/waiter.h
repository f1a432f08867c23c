#pragma once

#include <coroutine>
#include <string>
#include <string_view>

#include "async/cancellation_token.h"
#include "async/executor.h"
#include "async/intrusive_list.h"
#include "async/task.h"

namespace stoker {

// One suspended task inside a primitive: queue entry, cancellation node and resumption in one object, which
// lives in the waiting coroutine's frame. The first of wake() and the cancellation wins; both leave the queue
// at once, so a value handed over is never lost to a later cancellation. Not for users: they await the
// primitives.
//
// A primitive derives from it, links itself into its queue in await_suspend when begin() says so, and calls
// finish() in await_resume.
class Waiter : public ListHook<Waiter>, private CancellationNode {
 public:
  // Resumes the task later, in the executor's order; it is out of its queue when this returns. Nothing
  // happens when it is woken or cancelled already.
  void wake();

  // Destroying a primitive under a waiting task is a programming error, except while tasks are torn down.
  bool tearing_down() const { return context_->executor->tearing_down(); }
  const TaskRecord& record() const { return *context_->record; }

 protected:
  enum class Shield { kCancellable, kShielded };

  Waiter() = default;
  ~Waiter() override;

  // True: the task is registered and must suspend. False: its token is requested, and finish() will throw.
  template <typename Promise>
  bool begin(std::coroutine_handle<Promise> handle, const WaitSite& site,
             Shield shield = Shield::kCancellable) {
    return begin(handle, handle.promise().context(), site, shield);
  }

  // Throws Cancelled when the wait ended that way.
  void finish();

  TaskContext& context() const { return *context_; }

  // Called when the wait is cancelled, after leaving the queue and before the task resumes.
  virtual void cancelled() {}

 private:
  enum class State : uint8_t { kIdle, kWaiting, kPosted, kResumed };

  bool begin(std::coroutine_handle<> handle, TaskContext& context, const WaitSite& site, Shield shield);
  void on_cancel(CancelReason reason) override;
  void post();

  std::coroutine_handle<> handle_;
  TaskContext* context_ = nullptr;
  State state_ = State::kIdle;
  CancelReason reason_{};  // 0: not cancelled
};

// Waiters in order of arrival, with the name under which reports mention the primitive.
class WaitQueue {
 public:
  // `name` is the name of the primitive and lives in it.
  WaitQueue(const char* operation, std::string_view name) : site_{operation, name} {}
  // Aborts with the names of the primitive and of a task that still waits.
  ~WaitQueue();

  const WaitSite& site() const { return site_; }
  bool empty() const { return waiters_.empty(); }
  Waiter& front() { return waiters_.front(); }
  void push_back(Waiter& waiter) { waiters_.push_back(waiter); }

 private:
  WaitSite site_;
  IntrusiveList<Waiter> waiters_;
};

// "Channel.receive 'episodes'".
std::string describe(const WaitSite& site);

// Ends the process with one sentence: a programming error that cannot be thrown (from a destructor).
[[noreturn]] void abort_with(const std::string& sentence);

// co_await check_cancellation(): throws Cancelled when the awaiting task's token is requested. Never
// suspends.
struct ThrowIfCancelled {
  void operator()(TaskContext& context) const { context.cancellation.throw_if_requested(); }
};
inline detail::ContextRead<ThrowIfCancelled> check_cancellation() { return {}; }

}  // namespace stoker
