#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "async/intrusive_list.h"

namespace stoker {

namespace detail {
class DeadlineContext;
}

enum class CancelReason : uint8_t {
  kRequested = 1,  // somebody asked: the result is not wanted any more
  kDeadline = 2,   // a deadline passed
  kShutdown = 3,   // the run ends
};

// "requested", "deadline", "shutdown".
const char* to_string(CancelReason reason);

// Thrown out of a suspension point of a primitive when the waiting task's token is requested. Not an Error:
// it unwinds the task and is caught by who asked for the cancellation (Scope, with_timeout).
class Cancelled : public std::exception {
 public:
  explicit Cancelled(CancelReason reason) : reason_(reason) {}
  CancelReason reason() const { return reason_; }
  const char* what() const noexcept override;

 private:
  CancelReason reason_;
};

// A node that hears of one cancellation; the base of CancellationCallback and of every waiter. Unlinks itself
// on destruction.
class CancellationNode : public ListHook<CancellationNode> {
 protected:
  virtual ~CancellationNode() = default;

 private:
  friend class CancellationState;
  virtual void on_cancel(CancelReason reason) = 0;
};

// What a source and its tokens share. Reference counted; the count and the reason may be used by any thread,
// the rest by the loop thread alone.
class CancellationState {
 public:
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool requested() const { return reason_.load(std::memory_order_relaxed) != 0; }
  CancelReason reason() const { return CancelReason{reason_.load(std::memory_order_relaxed)}; }

  // The first request wins; calls the nodes in the order in which they were added.
  void request(CancelReason reason);
  // Links the node, or calls it at once when the request was made before.
  void add(CancellationNode& node);

 private:
  std::atomic<uint32_t> references_{1};
  std::atomic<uint8_t> reason_{0};
  IntrusiveList<CancellationNode> nodes_;
};

// The listening side of a cancellation; flows down implicitly from the awaiting task to the awaited one. A
// default token is never requested. Copies are cheap. requested() may be called by any thread (long
// computations poll it).
class CancellationToken {
 public:
  CancellationToken() = default;
  CancellationToken(const CancellationToken& other) : CancellationToken(other.state_) {}
  CancellationToken(CancellationToken&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  CancellationToken& operator=(CancellationToken other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~CancellationToken() {
    if (state_ != nullptr) state_->release();
  }

  bool requested() const { return state_ != nullptr && state_->requested(); }
  // Why; only when requested().
  CancelReason reason() const { return state_->reason(); }
  // Throws Cancelled when requested.
  void throw_if_requested() const {
    if (requested()) throw Cancelled(reason());
  }
  // Links a node that lives elsewhere, or calls it at once when already requested.
  void subscribe(CancellationNode& node) const {
    if (state_ != nullptr) state_->add(node);
  }

 private:
  friend class CancellationSource;
  friend class detail::DeadlineContext;

  // A token of a state of its own, which only friends can request.
  static CancellationToken fresh() {
    CancellationToken token;
    token.state_ = new CancellationState;
    return token;
  }
  void request(CancelReason reason) const { state_->request(reason); }

  explicit CancellationToken(CancellationState* state) : state_(state) {
    if (state_ != nullptr) state_->retain();
  }
  CancellationState* state_ = nullptr;
};

// Calls a function when the token is requested: at once when it already is. Lives on the loop thread;
// destroying it unsubscribes.
//
//   CancellationCallback kill_child(token, [&](CancelReason) { process.kill(); });
class CancellationCallback final : private CancellationNode {
 public:
  CancellationCallback(const CancellationToken& token, std::function<void(CancelReason)> function)
      : function_(std::move(function)) {
    token.subscribe(*this);
  }

 private:
  void on_cancel(CancelReason reason) override { function_(reason); }
  std::function<void(CancelReason)> function_;
};

// The asking side. Loop thread only: another thread or a signal posts to the executor first. With a parent
// token, the parent's request is passed on with its reason, so that a source can narrow what flows down.
//
//   CancellationSource source;
//   scope.spawn(with_cancellation(source.token(), work()));
//   source.request(CancelReason::kRequested);
class CancellationSource final : private CancellationNode {
 public:
  CancellationSource() : state_(new CancellationState) {}
  explicit CancellationSource(const CancellationToken& parent) : CancellationSource() {
    parent.subscribe(*this);
  }
  ~CancellationSource() { state_->release(); }

  CancellationToken token() const { return CancellationToken(state_); }
  bool requested() const { return state_->requested(); }
  void request(CancelReason reason = CancelReason::kRequested) { state_->request(reason); }

 private:
  void on_cancel(CancelReason reason) override { state_->request(reason); }
  CancellationState* state_;
};

}  // namespace stoker
