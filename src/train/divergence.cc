#include "train/divergence.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"

namespace stoker {

void check_loss_is_finite(double loss, int64_t version) {
  if (std::isfinite(loss)) return;
  throw internal_error(fmt::format(
      "The loss after {} updates is not a finite number: training has diverged. Go on from an earlier "
      "checkpoint with a lower learning rate.",
      version));
}

void check_gradient_is_finite(const StepResult& step) {
  if (std::isfinite(step.gradient_norm)) return;
  throw internal_error(fmt::format(
      "The gradient of update {} is not finite: training has diverged. Go on from an earlier checkpoint "
      "with a lower learning rate.",
      step.version));
}

}  // namespace stoker
