#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "environment/environment.h"

namespace stoker {

// The task stream: ordinal to row, a pure function, so that a resumed run sees the same tasks. Finite sources
// repeat in epochs, each in its own seeded order; generated ones never end.
class TaskSource {
 public:
  virtual ~TaskSource() = default;
  virtual TaskRow task(uint64_t ordinal) const = 0;
  // Rows in one epoch; empty when the source never repeats.
  virtual std::optional<uint64_t> epoch_size() const = 0;
};

}  // namespace stoker
