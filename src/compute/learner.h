#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "async/task.h"
#include "compute/batch.h"
#include "model/weights.h"

namespace stoker {

// Numbers of one pass over a Batch. Log-probabilities are natural logarithms of softmax(logits / temperature)
// over the whole vocabulary, in float32, and bit-identical to what the engine records for the same weights.
struct Scores {
  std::vector<float> log_probability;  // [N, K]
  std::vector<float> entropy;          // [N] of the full distribution at the row's temperature, nats
  std::vector<float> value;            // [N], empty without a value head
};

// What a backward pass needs to know of its forward pass. Opaque; made by Learner::forward, consumed by
// backward.
class Tape {
 public:
  virtual ~Tape() = default;
};

struct ForwardResult {
  Scores scores;
  std::unique_ptr<Tape> tape;
};

// d loss / d number, one for each number of Scores; an empty array stands for zeros.
struct Coefficients {
  std::vector<float> log_probability;  // [N, K]
  std::vector<float> entropy;          // [N]
  std::vector<float> value;            // [N]
};

struct StepResult {
  int64_t version = 0;       // optimizer steps done
  double gradient_norm = 0;  // global L2 norm before clipping
};

// AdamW (Loshchilov and Hutter 2019, algorithm 2), decoupled decay on matrices only (not on norms and
// biases).
struct OptimizerOptions {
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;
  float max_gradient_norm = 1.0f;  // global-norm clipping; 0: none
};

// Trains one model. The objective lives on the host: forward gives numbers, the objective turns them into one
// coefficient a number, backward accumulates gradients, step updates. Calls of one Learner must not overlap.
//
//   ForwardResult result = co_await learner.forward(batch);
//   Coefficients coefficients = objective(result.scores);
//   co_await learner.backward(std::move(result.tape), coefficients);
//   StepResult step = co_await learner.step(learning_rate);
class Learner {
 public:
  virtual ~Learner() = default;

  virtual const ModelConfig& config() const = 0;
  virtual int64_t version() const = 0;

  // Keeps nothing. `weights` null: the current ones; else a snapshot (a reference policy, an older version).
  virtual Task<Scores> score(const Batch& batch, WeightsPtr weights = nullptr) = 0;
  virtual Task<ForwardResult> forward(const Batch& batch) = 0;
  // Adds to the accumulated gradients; the same bits at any thread count.
  virtual Task<> backward(std::unique_ptr<Tape> tape, const Coefficients& coefficients) = 0;
  // One optimizer update with the accumulated gradients, which are then zero. Version + 1.
  virtual Task<StepResult> step(double learning_rate) = 0;
  // Immutable weights of the current version; cheap when nothing has changed since the last call.
  virtual Task<WeightsPtr> snapshot() = 0;

  // Zeroes moments and step counts of the optimizer (a fresh phase) and sets its options; version and weights
  // stay.
  virtual void reset_optimizer(const OptimizerOptions& options) = 0;
  // Optimizer state (moments, step count, version) as files in `folder`; weights are saved with save_model.
  virtual void save_optimizer(const std::filesystem::path& folder) const = 0;
  // Restores what save_optimizer wrote, with the weights of the same checkpoint. Throws Error(kInput) on a
  // mismatch.
  virtual void restore(const Weights& weights, const std::filesystem::path& folder) = 0;
};

}  // namespace stoker
