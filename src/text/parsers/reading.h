#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "base/frame_memory.h"

namespace stoker {

// A coroutine that reads a text while it still arrives: it suspends where the text fed so far ends and is
// resumed by the next piece (TurnInput). So each format is written as one plain reader of its grammar, and
// the whole form is the streaming form fed once. Lazy; the awaiting reader continues when it returns.
// Destroying a suspended reader destroys what it awaits.
template <typename T>
class [[nodiscard]] Reading {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct FinalStep {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle reader) const noexcept {
      return reader.promise().continuation;
    }
    void await_resume() const noexcept {}
  };

  struct promise_type : FrameMemory {
    Reading get_return_object() { return Reading(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    FinalStep final_suspend() const noexcept { return {}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { throw; }  // leaves through whoever fed the text

    std::coroutine_handle<> continuation = std::noop_coroutine();
    std::optional<T> value;
  };

  Reading(Reading&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Reading& operator=(Reading&&) = delete;
  ~Reading() {
    if (handle_) handle_.destroy();
  }

  // Runs the outermost reader up to the first place where it needs more text.
  void start() { handle_.resume(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().continuation = caller;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }

 private:
  explicit Reading(Handle handle) : handle_(handle) {}

  Handle handle_;
};

}  // namespace stoker
