#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/hash.h"

namespace stoker {

// Of words in their order; the same on every machine of this byte order.
template <size_t N>
uint64_t digest_of(const std::array<uint64_t, N>& words) {
  return hash64({reinterpret_cast<const char*>(words.data()), sizeof words});
}

// What was really played of an episode, turn by turn.
class PlayedDigest {
 public:
  // `tokens` sampled, then so many nanoseconds in a tool.
  void add_turn(int64_t tokens, int64_t tool_nanoseconds) {
    value_ = digest_of<3>({value_, static_cast<uint64_t>(tokens), static_cast<uint64_t>(tool_nanoseconds)});
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// What a run has played or trained, so that two runs can be compared.
class TrainedDigest {
 public:
  // An episode that was dispatched under one version and trained on another.
  void add(uint64_t ordinal, uint32_t sample, const PlayedDigest& played, int64_t dispatch_version,
           int64_t step) {
    const uint64_t episode = digest_of<3>({ordinal, sample, played.value()});
    set_ += episode;
    order_ =
        digest_of<4>({order_, episode, static_cast<uint64_t>(dispatch_version), static_cast<uint64_t>(step)});
  }

  uint64_t set() const { return set_; }      // of the episodes, in whatever order
  uint64_t order() const { return order_; }  // of their order and versions too

 private:
  uint64_t set_ = 0, order_ = 0;
};

}  // namespace stoker
