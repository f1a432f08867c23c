#pragma once

#include <cstdint>

#include "compute/compute_type.h"
#include "compute/recompute.h"
#include "model/config.h"

namespace stoker::cpu {

// Bytes of memory that a model's computation takes, for a plan before it starts: what grows with the model or
// with the batch, upper estimates within some tens of percent.

// The packed weights of the forward pass: one version in an engine or a learner.
int64_t packed_weight_bytes(const ModelConfig& config, ComputeType type);
// Those of the backward pass.
int64_t backward_weight_bytes(const ModelConfig& config, ComputeType type);
// Activations, keys and values, and gradients of a micro-batch of `tokens` tokens, each of which predicts the
// next one over `vocabulary` ids, on `threads` threads.
int64_t training_bytes(const ModelConfig& config, ComputeType type, Recompute recompute, int32_t vocabulary,
                       int64_t tokens, int threads);

}  // namespace stoker::cpu
