#pragma once

#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

#include "async/task_context.h"
#include "base/frame_memory.h"

namespace stoker {

template <typename T>
class Task;

namespace detail {

// Out of line: inlined, its copy of the pointer would take room in every frame that awaits.
[[noreturn]] void rethrow(const std::exception_ptr& exception);

// Throws Error(kInternal): a Task was awaited or started that has been moved from.
[[noreturn]] void throw_moved_from();

// The part of a promise that does not depend on the result.
class PromiseBase : public FrameMemory {
 public:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
      PromiseBase& promise = handle.promise();
      if (promise.continuation_) return promise.continuation_;
      promise.context_->record->finished();  // may destroy the frame
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }

  template <typename Read>
  ContextAwaiter<Read> await_transform(ContextRead<Read>) const {
    return ContextAwaiter<Read>(*context_);
  }
  template <typename Awaitable>
  Awaitable&& await_transform(Awaitable&& awaitable) const {
    return std::forward<Awaitable>(awaitable);
  }

  TaskContext& context() const { return *context_; }
  // The task runs under `context`. Without a continuation it is the root of its record.
  void attach(TaskContext& context) { context_ = &context; }
  // The task resumes `continuation` at its end and runs under `inherited` unless attached to another context.
  void continue_with(std::coroutine_handle<> continuation, TaskContext& inherited) {
    continuation_ = continuation;
    if (context_ == nullptr) context_ = &inherited;
  }

 private:
  std::coroutine_handle<> continuation_;
  TaskContext* context_ = nullptr;
};

template <typename T>
class Promise final : public PromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  void unhandled_exception() noexcept { result_.template emplace<2>(std::current_exception()); }
  template <typename U = T>
    requires std::is_convertible_v<U&&, T>
  void return_value(U&& value) {
    result_.template emplace<1>(std::forward<U>(value));
  }
  T take() {
    if (result_.index() == 2) rethrow(std::get<2>(result_));
    return std::get<1>(std::move(result_));
  }

 private:
  std::variant<std::monostate, T, std::exception_ptr> result_;
};

template <>
class Promise<void> final : public PromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }
  void return_void() const noexcept {}
  void take() const {
    if (exception_) rethrow(exception_);
  }
  const std::exception_ptr& exception() const { return exception_; }

 private:
  std::exception_ptr exception_;
};

// Starts a task as a child of the awaiting one, under the same context or another that outlives the wait.
template <typename T>
class TaskAwaiter {
 public:
  explicit TaskAwaiter(Task<T>&& task) : task_(std::move(task)) {
    if (!task_) throw_moved_from();
  }
  TaskAwaiter(Task<T>&& task, TaskContext& context) : TaskAwaiter(std::move(task)) {
    task_.handle_.promise().attach(context);
  }

  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    static_assert(std::is_base_of_v<PromiseBase, Promise>, "Only a Task can await a Task.");
    task_.handle_.promise().continue_with(awaiting, awaiting.promise().context());
    return task_.handle_;
  }
  T await_resume() { return task_.handle_.promise().take(); }

 private:
  Task<T> task_;
};

// Awaits `task` under another context, which must live as long as the wait.
template <typename T>
TaskAwaiter<T> in_context(TaskContext& context, Task<T>&& task) {
  return TaskAwaiter<T>(std::move(task), context);
}

}  // namespace detail
}  // namespace stoker
