#pragma once

#include <memory>

#include "async/compute_pool.h"
#include "compute/compute_type.h"
#include "compute/learner.h"
#include "compute/recompute.h"

namespace stoker::cpu {

// The Learner on this machine's processor. Works on the compute pool in slices of a few milliseconds, so that
// the engine gets its turns during a long batch; master weights, moments and gradients are float32 whatever
// the compute type.
//
// Logits of ids from `vocabulary_size` on (rows of the embedding without a token) are not computed: such an
// id in a batch is an error, and its rows never change. There is no value head: Scores::value stays empty.
// When the gradient norm of a step is not finite, the step changes no weight and no moment; the version still
// counts.
class CpuLearner final : public Learner {
 public:
  // `pool` must outlive the learner. Throws Error(kInput) when vocabulary_size does not fit the weights.
  CpuLearner(Weights weights, const OptimizerOptions& options, int32_t vocabulary_size, ComputePool& pool,
             ComputeType type = ComputeType::kFloat32, Recompute recompute = Recompute::kNone);
  ~CpuLearner() override;

  const ModelConfig& config() const override;
  int64_t version() const override;
  Task<Scores> score(const Batch& batch, WeightsPtr weights = nullptr) override;
  Task<ForwardResult> forward(const Batch& batch) override;
  Task<> backward(std::unique_ptr<Tape> tape, const Coefficients& coefficients) override;
  Task<StepResult> step(double learning_rate) override;
  Task<WeightsPtr> snapshot() override;
  void reset_optimizer(const OptimizerOptions& options) override;
  void save_optimizer(const std::filesystem::path& folder) const override;
  void restore(const Weights& weights, const std::filesystem::path& folder) override;

  // The gradients accumulated since the last step; in the manifest's shapes. For tests and diagnosis.
  const Weights& gradients() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::cpu
