#include "compute/cpu/cpu_learner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include "base/error.h"
#include "compute/cpu/backward_pass.h"
#include "compute/cpu/optimizer.h"
#include "compute/cpu/training_pass.h"

namespace stoker::cpu {
namespace {

// Work of one turn on the compute pool: about three milliseconds of one thread. Counted, not timed: slices
// never depend on the clock.
constexpr double kSliceOperations = 3e8;

// Passes that are not in use, with their memory.
using PassPool = std::vector<std::unique_ptr<TrainingPass>>;

std::unique_ptr<TrainingPass> take_pass(PassPool& pool) {
  if (pool.empty()) return std::make_unique<TrainingPass>();
  std::unique_ptr<TrainingPass> pass = std::move(pool.back());
  pool.pop_back();
  return pass;
}

class CpuTape final : public Tape {
 public:
  CpuTape(std::unique_ptr<TrainingPass> pass, std::shared_ptr<PassPool> pool)
      : pass_(std::move(pass)), pool_(std::move(pool)) {}
  ~CpuTape() override {
    pass_->release_weights();
    pool_->push_back(std::move(pass_));
  }

  TrainingPass& pass() { return *pass_; }

 private:
  std::unique_ptr<TrainingPass> pass_;
  std::shared_ptr<PassPool> pool_;
};

// Runs steps of a forward or backward pass from `step` until a slice is full; returns the next step.
template <typename Pass>
int run_slice(Pass& pass, int step, Parallel& parallel) {
  const double cost = pass.step_cost();
  for (double done = 0; step < pass.step_count() && done < kSliceOperations * parallel.threads();
       done += cost) {
    pass.run_step(step++, parallel);
  }
  return step;
}

}  // namespace

struct CpuLearner::State {
  State(Weights initial, const OptimizerOptions& options, int32_t vocabulary, ComputePool& compute,
        ComputeType type, Recompute recompute)
      : weights(std::move(initial)),
        gradients(weights.config()),
        optimizer(weights, options),
        vocabulary(vocabulary),
        pool(compute),
        type(type),
        recompute(recompute),
        backward(weights.config()) {}

  // The packed form of the current weights, or of `other`; the last other one is kept.
  std::shared_ptr<const PackedWeights> pack(const WeightsPtr& other, Parallel& parallel) {
    if (other != nullptr && other != current_snapshot) {
      if (other != reference || reference_packed == nullptr) {
        if (other->config() != weights.config()) {
          throw internal_error("Learner::score was given weights of another architecture.");
        }
        reference_packed = pack_weights(*other, type, parallel, std::move(reference_packed));
        reference = other;
      }
      return reference_packed;
    }
    if (packed == nullptr) packed = pack_weights(weights, type, parallel, std::move(outdated));
    return packed;
  }

  void weights_changed() {
    outdated = std::move(packed);
    packed.reset();
    current_snapshot.reset();
    backward_packed = false;
  }

  Weights weights;
  Weights gradients;
  AdamW optimizer;
  int32_t vocabulary;
  ComputePool& pool;
  ComputeType type;
  Recompute recompute;
  std::shared_ptr<const PackedWeights> packed;
  std::shared_ptr<const PackedWeights> outdated;  // whose memory the next ones take
  WeightsPtr current_snapshot;
  WeightsPtr reference;
  std::shared_ptr<const PackedWeights> reference_packed;
  BackwardWeights backward_weights;
  bool backward_packed = false;
  BackwardPass backward;
  std::shared_ptr<PassPool> passes = std::make_shared<PassPool>();
};

CpuLearner::CpuLearner(Weights weights, const OptimizerOptions& options, int32_t vocabulary_size,
                       ComputePool& pool, ComputeType type, Recompute recompute) {
  if (vocabulary_size < 1 || vocabulary_size > weights.config().vocab_size) {
    throw input_error(fmt::format("A tokenizer with {} ids does not fit a model with vocab_size {}.",
                                  vocabulary_size, weights.config().vocab_size));
  }
  state_ = std::make_unique<State>(std::move(weights), options, vocabulary_size, pool, type, recompute);
}

CpuLearner::~CpuLearner() = default;

const ModelConfig& CpuLearner::config() const { return state_->weights.config(); }
int64_t CpuLearner::version() const { return state_->weights.version(); }
const Weights& CpuLearner::gradients() const { return state_->gradients; }

Task<Scores> CpuLearner::score(const Batch& batch, WeightsPtr weights) {
  State& state = *state_;
  validate(batch, state.vocabulary);
  CpuTape tape(take_pass(*state.passes), state.passes);
  TrainingPass& pass = tape.pass();
  for (int step = -1; step < 0 || step < pass.step_count();) {
    step = co_await state.pool.run([&](Parallel& parallel) {
      if (step < 0) pass.prepare(batch, state.pack(weights, parallel), state.vocabulary, std::nullopt);
      return run_slice(pass, std::max(step, 0), parallel);
    });
  }
  co_return pass.take_scores();
}

Task<ForwardResult> CpuLearner::forward(const Batch& batch) {
  State& state = *state_;
  validate(batch, state.vocabulary);
  auto tape = std::make_unique<CpuTape>(take_pass(*state.passes), state.passes);
  TrainingPass& pass = tape->pass();
  for (int step = -1; step < 0 || step < pass.step_count();) {
    step = co_await state.pool.run([&](Parallel& parallel) {
      if (step < 0) pass.prepare(batch, state.pack(nullptr, parallel), state.vocabulary, state.recompute);
      return run_slice(pass, std::max(step, 0), parallel);
    });
  }
  Scores scores = pass.take_scores();
  co_return ForwardResult{std::move(scores), std::move(tape)};
}

Task<> CpuLearner::backward(std::unique_ptr<Tape> tape, const Coefficients& coefficients) {
  State& state = *state_;
  auto* own = dynamic_cast<CpuTape*>(tape.get());
  if (own == nullptr) throw internal_error("Learner::backward was given a tape of another learner.");
  TrainingPass& pass = own->pass();
  if (pass.weights().version != state.weights.version() || state.packed.get() != &pass.weights()) {
    throw internal_error("Learner::backward was given a tape of weights that a step has changed since.");
  }
  BackwardPass& backward = state.backward;
  for (int step = -1; step < 0 || step < backward.step_count();) {
    step = co_await state.pool.run([&](Parallel& parallel) {
      if (!state.backward_packed) {
        pack_backward_weights(state.weights, state.type, parallel, state.backward_weights);
        state.backward_packed = true;
      }
      if (step < 0) backward.prepare(pass, coefficients, state.backward_weights, state.gradients);
      return run_slice(backward, std::max(step, 0), parallel);
    });
  }
}

Task<StepResult> CpuLearner::step(double learning_rate) {
  State& state = *state_;
  const double norm = co_await state.pool.run([&](Parallel& parallel) {
    return state.optimizer.step(state.weights, state.gradients, learning_rate, parallel);
  });
  state.weights_changed();
  state.weights.set_version(state.weights.version() + 1);
  co_return StepResult{state.weights.version(), norm};
}

Task<WeightsPtr> CpuLearner::snapshot() {
  State& state = *state_;
  if (state.current_snapshot == nullptr) {
    state.current_snapshot = co_await state.pool.run(
        [&](Parallel&) -> WeightsPtr { return std::make_shared<const Weights>(state.weights); });
  }
  co_return state.current_snapshot;
}

void CpuLearner::reset_optimizer(const OptimizerOptions& options) { state_->optimizer.reset(options); }

void CpuLearner::save_optimizer(const std::filesystem::path& folder) const {
  state_->optimizer.save(folder, state_->weights);
}

void CpuLearner::restore(const Weights& weights, const std::filesystem::path& folder) {
  State& state = *state_;
  if (weights.config() != state.weights.config()) {
    throw input_error("The checkpoint in " + folder.string() + " is of a model with another configuration.");
  }
  const int64_t version = state.optimizer.restore(folder, weights);
  state.weights = weights;
  state.weights.set_version(version);
  std::ranges::fill(state.gradients.values(), 0.0f);
  state.weights_changed();
}

}  // namespace stoker::cpu
