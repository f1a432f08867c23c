#include "async/cancellation_token.h"

namespace stoker {

const char* to_string(CancelReason reason) {
  switch (reason) {
    case CancelReason::kRequested:
      return "requested";
    case CancelReason::kDeadline:
      return "deadline";
    case CancelReason::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

const char* Cancelled::what() const noexcept {
  switch (reason_) {
    case CancelReason::kRequested:
      return "The task was cancelled on request.";
    case CancelReason::kDeadline:
      return "The task was cancelled at its deadline.";
    case CancelReason::kShutdown:
      return "The task was cancelled because the run ends.";
  }
  return "The task was cancelled.";
}

void CancellationState::request(CancelReason reason) {
  if (requested()) return;
  reason_.store(static_cast<uint8_t>(reason), std::memory_order_relaxed);
  retain();  // a node may drop the last owner
  while (!nodes_.empty()) {
    CancellationNode& node = nodes_.front();
    node.unlink();
    node.on_cancel(reason);
  }
  release();
}

void CancellationState::add(CancellationNode& node) {
  if (requested()) {
    node.on_cancel(reason());
  } else {
    nodes_.push_back(node);
  }
}

}  // namespace stoker
