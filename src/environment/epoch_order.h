#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace stoker {

// The order of a finite data set: each epoch is its own permutation (Fisher-Yates) drawn from (seed, epoch),
// so that ordinal to row is a pure function and a resumed run goes on in the same order. Thread-safe; keeps
// the permutations of the two epochs asked for last (4 bytes a row each).
class EpochOrder {
 public:
  // At least 1 row and fewer than 2^32.
  EpochOrder(uint64_t rows, uint64_t seed) : rows_(rows), seed_(seed) {}

  uint64_t rows() const { return rows_; }
  uint64_t row(uint64_t ordinal) const;

 private:
  struct Epoch {
    uint64_t number = 0;
    std::vector<uint32_t> order;  // empty: none yet
  };

  uint64_t rows_;
  uint64_t seed_;
  mutable std::mutex mutex_;
  mutable Epoch recent_[2];  // the latest first
};

}  // namespace stoker
