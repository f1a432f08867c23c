#pragma once

#include "cli/session.h"

namespace stoker {

// What can be known before a run starts, in seconds: the first prompt rendered and shown, one call parsed,
// one tool run, one reward computed, and the memory that the run will take. Throws Error(kInput) naming what
// is wrong and the remedy.
void check_before_run(Session& session, const RunConfig& config);

// Bytes that a run takes, by part.
struct MemoryPlan {
  double weights = 0;      // current, published and packed
  double optimizer = 0;    // gradients and moments
  double cache = 0;        // keys and values of the engine
  double activations = 0;  // of one micro-batch, upper estimate
  double available = 0;    // what the machine has left

  double total() const { return weights + optimizer + cache + activations; }
};
MemoryPlan plan_memory(const ModelConfig& model, const EngineConfig& engine, int64_t micro_batch_tokens);

// Shows the plan and throws Error(kInput) with the setting to change when it does not fit.
void check_memory(const MemoryPlan& plan);

}  // namespace stoker
