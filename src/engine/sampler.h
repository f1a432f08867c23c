#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace stoker {

struct SampledId {
  int32_t id = 0;
  float log_probability = 0;  // as SampledToken::log_probability
  bool operator==(const SampledId&) const = default;
};

// Draws one id from logits: a pure function of its arguments; the object is only scratch memory, one for each
// thread. The same bits on every machine.
//
// Weights are exp((logit - max) / temperature), in float32. Filters apply in this order, each to what the one
// before left: top-k keeps the k heaviest ids; top-p the fewest heaviest ids whose share of the remaining
// mass reaches top_p; min-p those of at least min_p times the heaviest. Among equal weights the lower id is
// heavier. The draw is the first id, in id order, at which the running sum of the kept weights exceeds
// `uniform` times their total.
class Sampler {
 public:
  // `logits` [V], `uniform` in [0, 1). Parameters must be valid (request_check.h). Logits of -infinity are
  // ids that cannot be drawn; NaN, +infinity, or no finite logit at all is the failure
  // infrastructure.logits_not_finite naming the id.
  Result<SampledId> sample(std::span<const float> logits, const SamplingParameters& parameters,
                           double uniform);

 private:
  void weigh(std::span<const float> logits, float temperature);
  int32_t draw_from_all(double uniform) const;
  int32_t draw_from_kept(double uniform) const;
  void keep_heaviest(const SamplingParameters& parameters);

  int32_t count_ = 0;
  std::vector<float> weights_;  // [padded V]
  std::vector<int32_t> kept_;   // candidates, then the kept ids
};

}  // namespace stoker
