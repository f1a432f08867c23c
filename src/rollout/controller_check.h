#pragma once

#include "rollout/controller.h"

namespace stoker {

// Throws Error(kInput) for options that admit nothing or contradict each other, naming the field.
void check(const ControllerOptions& options);

}  // namespace stoker
