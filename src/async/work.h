#pragma once

#include <coroutine>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace stoker {

class TaskRecord;

// A suspended coroutine and the task it belongs to.
struct Continuation {
  std::coroutine_handle<> handle;
  TaskRecord* record = nullptr;

  // Runs the coroutine up to its next suspension with `record` as the thread's running task.
  void resume() const;
};

// The task whose code runs on this thread; null outside tasks.
TaskRecord* running_task();

// A piece of work that runs once: a Continuation or any callable without arguments, moved in. Callables of up
// to 24 bytes are held in place, larger ones on the heap.
class Work {
 public:
  Work() = default;
  Work(Continuation continuation) : Work(Resume{continuation}) {}  // NOLINT: implicit on purpose

  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Work> && std::is_invocable_v<std::remove_cvref_t<F>&>)
  Work(F&& function) {  // NOLINT: implicit on purpose
    using Held = std::remove_cvref_t<F>;
    if constexpr (fits<Held>) {
      new (storage_) Held(std::forward<F>(function));
      operations_ = &kInPlace<Held>;
    } else {
      Held* held = new Held(std::forward<F>(function));
      std::memcpy(storage_, &held, sizeof held);
      operations_ = &kOnHeap<Held>;
    }
  }

  Work(Work&& other) noexcept { take(other); }
  Work& operator=(Work&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Work() { reset(); }

  explicit operator bool() const { return operations_ != nullptr; }

  // Runs the work; it must be there.
  void operator()() { operations_->run(storage_); }

  // True when this would resume `handle`.
  bool resumes(std::coroutine_handle<> handle) const {
    if (operations_ != &kInPlace<Resume>) return false;
    return std::launder(reinterpret_cast<const Resume*>(storage_))->continuation.handle == handle;
  }

 private:
  struct Resume {
    Continuation continuation;
    void operator()() const { continuation.resume(); }
  };
  struct Operations {
    void (*run)(void* storage);
    void (*move)(void* to, void* from) noexcept;  // null: copy the bytes
    void (*destroy)(void* storage) noexcept;      // null: nothing to do
  };

  static constexpr size_t kInPlaceBytes = 24;

  template <typename Held>
  static constexpr bool fits = sizeof(Held) <= kInPlaceBytes && alignof(Held) <= alignof(void*) &&
                               std::is_nothrow_move_constructible_v<Held>;

  template <typename Held>
  static Held& held_in(void* storage) {
    return *std::launder(reinterpret_cast<Held*>(storage));
  }
  template <typename Held>
  static Held* held_by(void* storage) {
    Held* held;
    std::memcpy(&held, storage, sizeof held);
    return held;
  }
  template <typename Held>
  static void move_held(void* to, void* from) noexcept {
    new (to) Held(std::move(held_in<Held>(from)));
    held_in<Held>(from).~Held();
  }

  template <typename Held>
  static constexpr Operations kInPlace = {
      [](void* storage) { held_in<Held>(storage)(); },
      std::is_trivially_copyable_v<Held> ? nullptr : &move_held<Held>,
      std::is_trivially_destructible_v<Held>
          ? nullptr
          : +[](void* storage) noexcept { held_in<Held>(storage).~Held(); }};
  template <typename Held>
  static constexpr Operations kOnHeap = {[](void* storage) { (*held_by<Held>(storage))(); }, nullptr,
                                         [](void* storage) noexcept { delete held_by<Held>(storage); }};

  void take(Work& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ == nullptr) return;
    if (operations_->move != nullptr) {
      operations_->move(storage_, other.storage_);
    } else {
      std::memcpy(storage_, other.storage_, kInPlaceBytes);
    }
  }
  void reset() noexcept {
    if (operations_ != nullptr && operations_->destroy != nullptr) operations_->destroy(storage_);
    operations_ = nullptr;
  }

  alignas(void*) std::byte storage_[kInPlaceBytes];
  const Operations* operations_ = nullptr;
};

}  // namespace stoker
