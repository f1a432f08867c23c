#pragma once

#include "compute/learner.h"

namespace stoker {

// Throw Error(kInternal) with the remedy when training has diverged: a loss or a gradient that is not a
// finite number. `version`: updates done before.
void check_loss_is_finite(double loss, int64_t version);
void check_gradient_is_finite(const StepResult& step);

}  // namespace stoker
