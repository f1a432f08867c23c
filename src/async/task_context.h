#pragma once

#include <coroutine>
#include <string>
#include <utility>

#include "async/cancellation_token.h"
#include "async/executor.h"
#include "async/task_record.h"

namespace stoker {

// What flows implicitly from an awaiting task to the awaited one. Lives in a frame or a Scope's record; a
// task refers to it by pointer.
struct TaskContext {
  Executor* executor = nullptr;
  TaskRecord* record = nullptr;
  CancellationToken cancellation;
};

namespace detail {

// Awaited, gives Read{}(context of the awaiting task) without suspending: a promise turns it into a
// ContextAwaiter.
template <typename Read>
struct ContextRead {};

template <typename Read>
class ContextAwaiter {
 public:
  explicit ContextAwaiter(TaskContext& context) : context_(context) {}
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  decltype(auto) await_resume() const { return Read{}(context_); }

 private:
  TaskContext& context_;
};

struct ReadContext {
  TaskContext& operator()(TaskContext& context) const { return context; }
};
struct ReadExecutor {
  Executor& operator()(TaskContext& context) const { return *context.executor; }
};
struct ReadCancellation {
  CancellationToken operator()(TaskContext& context) const { return context.cancellation; }
};

}  // namespace detail

// co_await current_executor(): the Executor& on which the awaiting task runs. Never suspends.
inline detail::ContextRead<detail::ReadExecutor> current_executor() { return {}; }

// co_await current_cancellation(): the token of the awaiting task. Never suspends.
inline detail::ContextRead<detail::ReadCancellation> current_cancellation() { return {}; }

// co_await current_context(): for primitives that start or wrap tasks.
inline detail::ContextRead<detail::ReadContext> current_context() { return {}; }

// co_await name_task("episode 12"): names the running task (the one started in a Scope or by run()) in
// reports.
class NameTask {
 public:
  explicit NameTask(std::string name) : name_(std::move(name)) {}
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) {
    awaiting.promise().context().record->set_name(std::move(name_));
    return false;
  }
  void await_resume() const noexcept {}

 private:
  std::string name_;
};
inline NameTask name_task(std::string name) { return NameTask(std::move(name)); }

}  // namespace stoker
