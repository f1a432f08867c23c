#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "trajectory/trajectory.h"

namespace stoker::testing {

// A trajectory of random shape for property tests: any order of spans that the contract allows, empty sampled
// spans, interrupted turns, log-probabilities of all magnitudes; now and then the last span is left open.
inline Trajectory random_trajectory(RandomStream& random) {
  auto tokens = [&](uint64_t least) {
    std::vector<int32_t> ids(least + random.below(8));
    for (int32_t& id : ids) id = static_cast<int32_t>(random.below(random.below(2) == 0 ? 200 : 2147483648u));
    return ids;
  };
  Trajectory trajectory;
  int64_t time = static_cast<int64_t>(random.below(1000));
  auto next_time = [&] { return time += static_cast<int64_t>(random.below(1u << 20)); };
  trajectory.append(SpanKind::kPrompt, 0, tokens(0), time, next_time());
  int64_t version = static_cast<int64_t>(random.below(5));
  int32_t turn = 0;
  for (uint64_t turns = random.below(5); turns > 0; --turns) {
    for (uint64_t requests = 1 + random.below(2); requests > 0; --requests) {
      trajectory.begin_sampled(turn, next_time());
      for (int32_t id : tokens(0)) {
        double magnitude =
            random.below(4) == 0 ? 0.0 : random.normal() * (random.below(4) == 0 ? 1e-30 : 3.0);
        trajectory.append_sampled(id, -static_cast<float>(magnitude < 0 ? -magnitude : magnitude), version,
                                  random.below(4) == 0);
        if (random.below(6) == 0) ++version;
      }
      if (turns == 1 && requests == 1 && random.below(8) == 0) return trajectory;
      trajectory.close_sampled(static_cast<StopReason>(random.below(5)), next_time());
    }
    if (random.below(2) == 0) {
      trajectory.append(SpanKind::kObservation, turn, tokens(1), time, next_time());
    }
    turn += 1 + static_cast<int32_t>(random.below(2));
    if (random.below(2) == 0) trajectory.append(SpanKind::kInjected, turn, tokens(1));
  }
  return trajectory;
}

}  // namespace stoker::testing
