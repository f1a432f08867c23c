#include "async/scope.h"

#include <string>
#include <utility>

#include "async/root_task.h"

namespace stoker {

class Scope::Child final : public RootTask, public FrameMemory {
 public:
  Child(Scope& scope, Task<void> task, std::string name)
      : RootTask(*scope.executor_, scope.token(), std::move(task), std::move(name), scope.owner_),
        scope_(scope) {}

  bool belongs_to(const Scope& scope) const { return &scope_ == &scope; }

 private:
  void finished() noexcept override { scope_.end(*this, exception()); }

  Scope& scope_;
};

namespace {

class JoinAwaiter final : public Waiter {
 public:
  explicit JoinAwaiter(WaitQueue& queue) : queue_(queue) {}
  bool await_ready() const { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    if (begin(handle, queue_.site(), Shield::kShielded)) queue_.push_back(*this);
    return true;
  }
  void await_resume() { finish(); }

 private:
  WaitQueue& queue_;
};

}  // namespace

Scope::Scope(Executor& executor, const CancellationToken& parent)
    : executor_(&executor), owner_(running_task_name()), parent_(parent), source_(std::in_place, parent) {}

Scope::~Scope() {
  const auto is_child = [this](const TaskRecord& record) {
    const auto* child = dynamic_cast<const Child*>(&record);
    return child != nullptr && child->belongs_to(*this);
  };
  if (running_ > 0 && !executor_->tearing_down()) abort_with_names(is_child);
  while (TaskRecord* child = running_ > 0 ? executor_->tasks().find_if(is_child) : nullptr) {
    --running_;
    delete static_cast<Child*>(child);
  }
}

void Scope::abort_with_names(FunctionRef<bool(const TaskRecord&)> is_child) const {
  constexpr size_t kListed = 5;
  std::string names;
  size_t listed = 0;
  executor_->tasks().for_each([&](const TaskRecord& record) {
    if (!is_child(record) || ++listed > kListed) return;
    names += (listed > 1 ? ", '" : "'") + record.name() + "'";
  });
  abort_with("A Scope is destroyed while " + std::to_string(running_) + " of its tasks run (" + names +
             (running_ > kListed ? ", ..." : "") + "); await join() first.");
}

void Scope::spawn(Task<void> task, std::string name) {
  auto* child = new Child(*this, std::move(task), std::move(name));
  ++running_;
  child->start();
}

void Scope::end(Child& child, const std::exception_ptr& exception) noexcept {
  if (exception && !failure_) {
    try {
      std::rethrow_exception(exception);
    } catch (const Cancelled&) {
    } catch (...) {
      failure_ = std::current_exception();
    }
    if (failure_) source_->request(CancelReason::kRequested);
  }
  delete &child;
  if (--running_ > 0) return;
  while (!joiners_.empty()) joiners_.front().wake();
}

Task<> Scope::join() {
  const CancellationToken caller = co_await current_cancellation();
  CancellationCallback pass_on(caller, [this](CancelReason reason) { cancel(reason); });
  while (running_ > 0) co_await JoinAwaiter(joiners_);
  if (std::exception_ptr failure = std::exchange(failure_, nullptr)) {
    if (!cancelled_) source_.emplace(parent_);
    std::rethrow_exception(failure);
  }
  caller.throw_if_requested();
}

}  // namespace stoker
