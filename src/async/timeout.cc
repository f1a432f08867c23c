#include "async/timeout.h"

namespace stoker::detail {

DeadlineContext::DeadlineContext(TaskContext& outer, TimePoint deadline)
    : outer_(outer), inner_{outer.executor, outer.record, CancellationToken::fresh()} {
  outer.cancellation.subscribe(*this);
  outer.executor->arm(*this, deadline);
}

void DeadlineContext::on_cancel(CancelReason reason) { inner_.cancellation.request(reason); }

void DeadlineContext::fire() { inner_.cancellation.request(CancelReason::kDeadline); }

}  // namespace stoker::detail
