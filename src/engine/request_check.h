#pragma once

#include <cstdint>
#include <optional>

#include "engine/engine.h"

namespace stoker {

// What every engine refuses alike, before it does anything. A budget of no tokens is the failure
// limit.max_tokens (a caller that has used up a budget gets it); a context without tokens or sampling
// parameters outside their ranges are broken promises of the caller and throw Error naming them.
std::optional<Failure> check_request(const GenerateRequest& request);

// The lowest temperature other than 0: below it logits / temperature has no digits left after the point.
constexpr float kMinTemperature = 1e-4f;

// Throws Error(kInput) naming the parameter, its value and its range: temperature 0 or at least
// kMinTemperature, top_k >= 0, 0 < top_p <= 1, 0 <= min_p <= 1, repetition_penalty > 0, the other penalties
// and biases finite, top_log_probabilities >= 0.
void validate(const SamplingParameters& parameters);

// infrastructure.stale_version: weights older than those that serve.
Failure stale_version(int64_t offered, int64_t current);

}  // namespace stoker
