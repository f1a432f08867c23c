#include "async/waiter.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace stoker {

Waiter::~Waiter() {
  if (state_ == State::kPosted) context_->executor->forget(handle_);
}

bool Waiter::begin(std::coroutine_handle<> handle, TaskContext& context, const WaitSite& site,
                   Shield shield) {
  handle_ = handle;
  context_ = &context;
  if (shield == Shield::kCancellable) {
    if (context.cancellation.requested()) {
      reason_ = context.cancellation.reason();
      return false;
    }
    context.cancellation.subscribe(*this);
  }
  state_ = State::kWaiting;
  context.record->set_waiting(&site);
  return true;
}

void Waiter::post() {
  state_ = State::kPosted;
  context_->record->set_waiting(nullptr);
  context_->executor->post(Continuation{handle_, context_->record});
}

void Waiter::wake() {
  if (state_ != State::kWaiting) return;
  ListHook<Waiter>::unlink();
  ListHook<CancellationNode>::unlink();
  post();
}

void Waiter::on_cancel(CancelReason reason) {
  ListHook<Waiter>::unlink();
  reason_ = reason;
  post();
  cancelled();
}

void Waiter::finish() {
  state_ = State::kResumed;
  if (reason_ != CancelReason{}) throw Cancelled(reason_);
}

WaitQueue::~WaitQueue() {
  if (waiters_.empty() || waiters_.front().tearing_down()) return;
  abort_with(describe(site_) + " is destroyed under the waiting task '" + waiters_.front().record().name() +
             "'; join or cancel its users first.");
}

std::string describe(const WaitSite& site) {
  std::string text = site.operation;
  if (!site.name.empty()) text.append(" '").append(site.name).append("'");
  return text;
}

void abort_with(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::abort();
}

}  // namespace stoker
