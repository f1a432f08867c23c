#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/session.h"
#include "compute/recompute.h"

namespace stoker {

// What the checks before a run found, to be shown and logged once the run folder is there.
struct BeforeRun {
  std::vector<std::string> lines;
  std::vector<ToolSchema> tools;  // that the environment offers
  Recompute recompute = Recompute::kNone;
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
  int engines = 0;              // in this process, each with a cache of its own; one of them for evaluation
  int child_engines = 0;        // likewise, in processes of their own
  int64_t cache_megabytes = 0;  // of one engine
  int64_t micro_batch_tokens = 0;
  std::string micro_batch_key;         // of the run file
  std::optional<Recompute> recompute;  // absent: the cheapest in time of those that fit
  int64_t limit_megabytes = 0;         // of the process with its model; 0: what the machine has left
};
// What "auto", "none", "attention" and "layer" in a run file stand for.
std::optional<Recompute> recompute_setting(const std::string& name);

// Bytes that a run takes beside the model that is loaded already, by part; upper estimates.
struct MemoryPlan {
  double weights = 0;      // of learner and engines, plain and packed
  double optimizer = 0;    // gradients and moments
  double cache = 0;        // keys and values of the engines
  double activations = 0;  // of one micro-batch
  Recompute recompute = Recompute::kNone;

  double total() const { return weights + optimizer + cache + activations; }
};
// The plan with the first form of recomputation that takes at most `budget` bytes; with the last one allowed
// when none does.
MemoryPlan plan_memory(const ModelConfig& model, const MemorySettings& settings, double budget);

// The plan as one line, and the form of recomputation that it chose. Throws Error(kInput) when it takes more
// than `available` bytes or than the settings allow, with the setting that would make it fit.
struct CheckedMemory {
  std::string line;
  Recompute recompute = Recompute::kNone;
};
CheckedMemory check_memory(const ModelConfig& model, const MemorySettings& settings, double available);
// Bytes that the machine has left.
double available_memory();

}  // namespace stoker
