#pragma once

#include <coroutine>
#include <type_traits>
#include <utility>

#include "async/task_context.h"
#include "async/task_promise.h"

namespace stoker {

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
// Awaiting a task that was moved from throws Error(kInternal).
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

}  // namespace stoker
