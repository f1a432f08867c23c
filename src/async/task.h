#pragma once

#include <coroutine>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

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

template <typename T>
class Task;

namespace detail {

// The part of a promise that does not depend on the result.
class PromiseBase {
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

  TaskContext& context() const { return *context_; }
  // Without a continuation the task is the root of its record.
  void attach(TaskContext& context, std::coroutine_handle<> continuation = {}) {
    context_ = &context;
    continuation_ = continuation;
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
    if (result_.index() == 2) std::rethrow_exception(std::get<2>(result_));
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
    if (exception_) std::rethrow_exception(exception_);
  }
  const std::exception_ptr& exception() const { return exception_; }

 private:
  std::exception_ptr exception_;
};

// Starts a task as a child of the awaiting one, under the same context or another that outlives the wait.
template <typename T>
class TaskAwaiter {
 public:
  explicit TaskAwaiter(Task<T> task, TaskContext* context = nullptr)
      : task_(std::move(task)), context_(context) {}

  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    static_assert(std::is_base_of_v<PromiseBase, Promise>, "Only a Task can await a Task.");
    PromiseBase& promise = task_.handle_.promise();
    promise.attach(context_ != nullptr ? *context_ : awaiting.promise().context(), awaiting);
    return task_.handle_;
  }
  T await_resume() { return task_.handle_.promise().take(); }

 private:
  Task<T> task_;
  TaskContext* context_;
};

// Awaits `task` under another context, which must live as long as the wait.
template <typename T>
TaskAwaiter<T> in_context(TaskContext& context, Task<T> task) {
  return TaskAwaiter<T>(std::move(task), &context);
}

// Reads something of the awaiting task without suspending it.
template <typename Read>
class ContextAwaiter {
 public:
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    context_ = &awaiting.promise().context();
    return false;
  }
  decltype(auto) await_resume() const { return Read{}(*context_); }

 private:
  TaskContext* context_ = nullptr;
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

// A lazy coroutine that gives one T. Nothing runs before it is awaited (or given to a Scope or to run()); it
// runs on the awaiting task's executor, under its cancellation, and ends before the awaiting expression does.
// Exceptions come out of the await. Awaiting transfers symmetrically: a loop over ready tasks does not grow
// the stack, and an await costs the frame and nothing else. Move-only; a task that is never awaited is
// destroyed with its arguments.
//
//   Task<int> length(Channel<std::string>& lines) {
//     std::optional<std::string> line = co_await lines.receive();
//     co_return line ? static_cast<int>(line->size()) : 0;
//   }
//   Task<> report(Channel<std::string>& lines) {
//     Task<int> later = length(lines);                    // not started
//     log_info("{} bytes", co_await std::move(later));
//   }
//
// Not for several awaiters, not detached: work beside the caller goes into a Scope. A reference parameter
// must outlive the task; a lambda with captures must not be a coroutine (the captures die with the lambda
// object).
template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  static_assert(!std::is_reference_v<T>,
                "A Task gives a value; use a pointer for something that lives elsewhere.");

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // False when moved from.
  explicit operator bool() const { return static_cast<bool>(handle_); }

  detail::TaskAwaiter<T> operator co_await() && { return detail::TaskAwaiter<T>(std::move(*this)); }

 private:
  friend promise_type;
  friend class detail::TaskAwaiter<T>;
  friend class RootTask;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

template <typename T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

// co_await current_executor(): the Executor& on which the awaiting task runs. Never suspends.
inline detail::ContextAwaiter<detail::ReadExecutor> current_executor() { return {}; }

// co_await current_cancellation(): the token of the awaiting task. Never suspends.
inline detail::ContextAwaiter<detail::ReadCancellation> current_cancellation() { return {}; }

// co_await current_context(): for primitives that start or wrap tasks.
inline detail::ContextAwaiter<detail::ReadContext> current_context() { return {}; }

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
