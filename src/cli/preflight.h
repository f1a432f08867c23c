#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/session.h"

namespace stoker {

// What the checks before a run found, to be shown and logged once the run folder is there.
struct BeforeRun {
  std::vector<std::string> lines;
  std::vector<ToolSchema> tools;  // that the environment offers
};

// One episode without a model, with the deadlines of the run file: the first prompt rendered, one call of
// each tool parsed and run, the rewards computed. Throws Error(kInput) naming what is wrong and the remedy,
// and Cancelled when interrupted.
BeforeRun check_environment(Session& session, const RunConfig& config, InterruptWatch& interrupts);

// The same, after the memory that the run will take and every setting that an engine or an episode would
// refuse.
BeforeRun check_before_run(Session& session, const RunConfig& config, InterruptWatch& interrupts);

// The tokens' text as one line of JSON; of a long one the beginning and the end.
std::string excerpt(const Tokenizer& tokenizer, std::span<const int32_t> tokens);

// What of a run decides how much memory it takes.
struct MemorySettings {
  ComputeType compute_type = ComputeType::kFloat32;
  int32_t vocabulary_size = 0;
  int threads = 1;
  int engines = 0;              // each with a cache of its own
  int64_t cache_megabytes = 0;  // of one engine
  int64_t micro_batch_tokens = 0;
  std::string micro_batch_key;  // of the run file
};

// Bytes that a run takes beside the model that is loaded already, by part; upper estimates.
struct MemoryPlan {
  double weights = 0;      // of learner and engines, plain and packed
  double optimizer = 0;    // gradients and moments
  double cache = 0;        // keys and values of the engines
  double activations = 0;  // of one micro-batch

  double total() const { return weights + optimizer + cache + activations; }
};
MemoryPlan plan_memory(const ModelConfig& model, const MemorySettings& settings);

// The plan as one line. Throws Error(kInput) when it takes more than `available` bytes, with the setting that
// would make it fit.
std::string check_memory(const ModelConfig& model, const MemorySettings& settings, double available);
// Bytes that the machine has left.
double available_memory();

}  // namespace stoker
