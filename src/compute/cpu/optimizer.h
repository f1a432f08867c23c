#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "async/parallel.h"
#include "compute/learner.h"
#include "model/weights.h"

namespace stoker::cpu {

// AdamW (Loshchilov and Hutter 2019, algorithm 2) with clipping by the global norm, on the flat array of a
// model's weights. Every sum has a fixed order: the same bits at any thread count.
class AdamW {
 public:
  AdamW(const Weights& weights, const OptimizerOptions& options);

  // Zero moments and steps, other options.
  void reset(const OptimizerOptions& options);

  // One update: `gradients` are scaled to max_gradient_norm when they exceed it, applied, and set to zero.
  // Returns the norm before clipping. When it is not finite, weights and moments stay as they are.
  double step(Weights& weights, Weights& gradients, double learning_rate, Parallel& parallel);

  // Moments and counts as optimizer.safetensors in `folder`; `version` travels with them.
  void save(const std::filesystem::path& folder, const Weights& weights) const;
  // Returns the version. Throws Error(kInput) when the file is missing or of another model.
  int64_t restore(const std::filesystem::path& folder, const Weights& weights);

 private:
  // A run of elements of one tensor, updated together.
  struct Run {
    int64_t begin, count;
    bool decay;  // matrices, not norms and biases
  };

  OptimizerOptions options_;
  int64_t steps_ = 0;
  std::vector<Run> runs_;
  std::vector<double> squares_;  // [runs]
  std::vector<float> moment1_, moment2_;
};

}  // namespace stoker::cpu
