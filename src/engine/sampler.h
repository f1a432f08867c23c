#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace stoker {

// The members of SampledToken of these names.
struct SampledId {
  int32_t id = 0;
  float log_probability = 0;
  float drawn_log_probability = 0;
  std::vector<TokenLogProbability> top = {};
  bool operator==(const SampledId&) const = default;
};

// What the choice depends on besides the logits.
struct SamplingContext {
  std::span<const int32_t> tokens = {};  // those so far
  int32_t sampled = 0;                   // of which the last ones were sampled in this turn
  const TokenMask* mask = nullptr;
};

// Draws one id from logits: a pure function of its arguments; the object is only scratch memory, one for each
// thread. The same bits on every machine.
//
// Weights are exp((logit - max) / temperature), in float32. Filters apply in this order, each to what the one
// before left: top-k keeps the k heaviest ids; top-p the fewest heaviest ids whose share of the remaining
// mass reaches top_p; min-p those of at least min_p times the heaviest. Among equal weights the lower id is
// heavier. The draw is the first id, in id order, at which the running sum of the kept weights exceeds
// `uniform` times their total. Penalties, biases, forbidden ids and the mask change the logits before.
class Sampler {
 public:
  // `logits` [V], `uniform` in [0, 1). Parameters must be valid (request_check.h). Logits of -infinity are
  // ids that cannot be drawn; NaN, +infinity, or no finite logit at all is the failure
  // infrastructure.logits_not_finite naming the id. When parameters and mask leave no id to draw, it is
  // policy.no_token_allowed.
  Result<SampledId> sample(std::span<const float> logits, const SamplingParameters& parameters,
                           double uniform, const SamplingContext& context = {});

 private:
  std::span<const float> change_logits(std::span<const float> logits, const SamplingParameters& parameters,
                                       const SamplingContext& context);
  void penalize(const SamplingParameters& parameters, const SamplingContext& context);
  float kept_log_probability(int32_t id) const;
  void weigh(std::span<const float> logits, float temperature);
  int32_t draw_from_all(double uniform) const;
  int32_t draw_from_kept(double uniform) const;
  void keep_heaviest(const SamplingParameters& parameters);

  int32_t count_ = 0;
  std::vector<float> weights_;  // [padded V]
  std::vector<int32_t> kept_;   // candidates, then the kept ids
  std::vector<float> changed_;  // [V] logits
  std::vector<int32_t> uses_;   // [V] zeros between calls
  std::vector<uint8_t> allowed_;
};

}  // namespace stoker
