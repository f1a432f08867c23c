#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace stoker {

// What a run has trained, so that two runs can be compared.
class TrainedDigest {
 public:
  // An episode of length `scale` that was dispatched under one version and trained on another.
  void add(uint64_t ordinal, uint32_t sample, double scale, int64_t dispatch_version, int64_t step) {
    const uint64_t episode = hash<3>({ordinal, sample, std::bit_cast<uint64_t>(scale)});
    set_ += episode;
    order_ = hash<4>({order_, episode, static_cast<uint64_t>(dispatch_version), static_cast<uint64_t>(step)});
  }

  uint64_t set() const { return set_; }      // of the episodes, in whatever order
  uint64_t order() const { return order_; }  // of their order and versions too

 private:
  template <size_t N>
  static uint64_t hash(const std::array<uint64_t, N>& words) {
    return hash64({reinterpret_cast<const char*>(words.data()), sizeof words});
  }

  uint64_t set_ = 0, order_ = 0;
};

}  // namespace stoker
