#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "async/task.h"
#include "async/waiter.h"

namespace stoker {

// A bounded queue between tasks. A full one makes senders wait: that is the back-pressure, and size() its
// metric. Values come out in the order in which they went in; senders and receivers are served first come,
// first served. Capacity 0 hands each value over directly. Any number of senders and receivers; no broadcast.
//
//   Channel<Episode> finished(64, "finished episodes");
//   Task<> producer(Channel<Episode>& out) {
//     while (co_await out.send(co_await play())) {}      // false: closed
//   }
//   Task<> consumer(Channel<Episode>& in) {
//     while (std::optional<Episode> episode = co_await in.receive()) use(*episode);
//   }
//   finished.close();   // receivers drain what is there, then get nullopt
//
// A value handed to a receiver arrives even if the receiver is cancelled a moment later; a cancelled send did
// not happen and destroys its value. Must outlive its users. Loop thread only.
template <typename T>
class Channel {
 public:
  explicit Channel(size_t capacity, std::string name = "") : capacity_(capacity), name_(std::move(name)) {}

  size_t size() const { return values_.size(); }
  size_t capacity() const { return capacity_; }
  bool closed() const { return closed_; }
  const std::string& name() const { return name_; }

  // Waits while the channel is full. False when it is or becomes closed: the value is destroyed.
  Task<bool> send(T value) { co_return co_await SendAwaiter(*this, value); }

  // Moves `value` in if there is room; leaves it alone and returns false when full or closed.
  bool try_send(T& value) {
    if (closed_) return false;
    if (!receivers_.empty()) {
      static_cast<ReceiveAwaiter&>(receivers_.front()).hand_over(std::move(value));
      return true;
    }
    if (values_.size() >= capacity_) return false;
    values_.push_back(std::move(value));
    return true;
  }

  // Waits for a value. nullopt when the channel is closed and drained.
  Task<std::optional<T>> receive() { co_return co_await ReceiveAwaiter(*this); }

  // A value if one is there now.
  std::optional<T> try_receive() {
    std::optional<T> value;
    if (!values_.empty()) {
      value.emplace(std::move(values_.front()));
      values_.pop_front();
      if (!senders_.empty()) values_.push_back(static_cast<SendAwaiter&>(senders_.front()).hand_over());
    } else if (!senders_.empty()) {
      value.emplace(static_cast<SendAwaiter&>(senders_.front()).hand_over());
    }
    return value;
  }

  // No more sends: those that wait get false, receivers get what is there and then nullopt. May be repeated.
  void close() {
    closed_ = true;
    while (!senders_.empty()) senders_.front().wake();
    while (!receivers_.empty()) receivers_.front().wake();
  }

 private:
  class SendAwaiter final : public Waiter {
   public:
    SendAwaiter(Channel& channel, T& value) : channel_(channel), value_(value) {}
    // Gives the value to who takes it and resumes the sender.
    T hand_over() {
      accepted_ = true;
      wake();
      return std::move(value_);
    }
    bool await_ready() const { return false; }
    template <typename Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
      if (!handle.promise().context().cancellation.requested()) {
        accepted_ = channel_.try_send(value_);
        if (accepted_ || channel_.closed_) return false;
      }
      if (!begin(handle, channel_.senders_.site())) return false;
      channel_.senders_.push_back(*this);
      return true;
    }
    bool await_resume() {
      finish();
      return accepted_;
    }

   private:
    Channel& channel_;
    T& value_;
    bool accepted_ = false;
  };

  class ReceiveAwaiter final : public Waiter {
   public:
    explicit ReceiveAwaiter(Channel& channel) : channel_(channel) {}
    // Takes the value and resumes the receiver.
    void hand_over(T value) {
      value_.emplace(std::move(value));
      wake();
    }
    bool await_ready() const { return false; }
    template <typename Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
      if (!handle.promise().context().cancellation.requested()) {
        value_ = channel_.try_receive();
        if (value_ || channel_.closed_) return false;
      }
      if (!begin(handle, channel_.receivers_.site())) return false;
      channel_.receivers_.push_back(*this);
      return true;
    }
    std::optional<T> await_resume() {
      finish();
      return std::move(value_);
    }

   private:
    Channel& channel_;
    std::optional<T> value_;
  };

  size_t capacity_;
  std::string name_;
  std::deque<T> values_;
  bool closed_ = false;
  WaitQueue senders_{"Channel.send", name_};
  WaitQueue receivers_{"Channel.receive", name_};
};

}  // namespace stoker
