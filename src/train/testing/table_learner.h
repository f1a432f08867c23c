#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compute/learner.h"

namespace stoker::testing {

// The smallest model with a context: the logits of the next token are a column of one table, picked by the
// last token, plus a column of another, picked by the sum of all tokens of the context. Log-probabilities and
// gradients are exact; the optimizer is gradient descent with momentum and global-norm clipping. Made of real
// Weights, so that it can be saved and loaded as any model.
class TableLearner final : public Learner {
 public:
  explicit TableLearner(Weights weights, OptimizerOptions options = {});

  const ModelConfig& config() const override { return weights_.config(); }
  int64_t version() const override { return weights_.version(); }
  Task<Scores> score(const Batch& batch, WeightsPtr weights) override;
  Task<ForwardResult> forward(const Batch& batch) override;
  Task<> backward(std::unique_ptr<Tape> tape, const Coefficients& coefficients) override;
  Task<StepResult> step(double learning_rate) override;
  Task<WeightsPtr> snapshot() override;
  void reset_optimizer(const OptimizerOptions& options) override;
  void save_optimizer(const std::filesystem::path& folder) const override;
  void restore(const Weights& weights, const std::filesystem::path& folder) override;

  // What was done, for assertions.
  std::span<const double> gradient() const { return gradient_; }
  std::span<const float> momentum() const { return momentum_; }
  int64_t forward_tokens = 0;
  int64_t updates = 0;

 private:
  struct TableTape;
  OptimizerOptions options_;
  Weights weights_;
  std::vector<double> gradient_;
  std::vector<float> momentum_;
};

ModelConfig table_config(int32_t vocabulary);
Weights table_weights(int32_t vocabulary, uint64_t seed);

// log softmax of the model's logits at `temperature` after `context`: [vocabulary].
std::vector<float> table_log_probabilities(const Weights& weights, std::span<const int32_t> context,
                                           float temperature);

}  // namespace stoker::testing
