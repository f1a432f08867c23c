#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/pool.h"
#include "async/task.h"
#include "base/metrics.h"
#include "compute/learner.h"
#include "rollout/group.h"
#include "train/checkpoint.h"
#include "train/options.h"

namespace stoker {

// Where the trainer's batches come from and its weights go to; orchestrator_source.h stands on the
// orchestrator.
class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  // The next batch; empty when the run is over. After each batch one of the two that follow is called.
  virtual Task<std::optional<RolloutBatch>> next_batch() = 0;
  virtual Task<> step_finished(WeightsPtr weights) = 0;
  virtual void step_skipped() {}  // the batch had nothing to train
  // Position in the task stream: ordinals below were trained or dropped, except the open ones.
  virtual uint64_t next_ordinal() const = 0;
  virtual std::vector<uint64_t> open_ordinals() const = 0;
  // Numbers of the sampling side that belong to the step of `batch`.
  virtual void add_metrics(const RolloutBatch& batch, MetricMap& metrics) const {}
};

struct Evaluation {
  double score = 0;  // what "best" means: higher is better
  MetricMap metrics;
};

// Measures one version of the weights, beside training: with an engine and sampling settings of its own.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Task<Evaluation> evaluate(WeightsPtr weights, int64_t step) = 0;
};

struct TrainerOptions {
  TrainConfig train;
  CheckpointConfig checkpoint;
  int64_t total_steps = 1;
  uint64_t seed = 0;         // of the run
  double temperature = 1.0;  // of the sampled tokens
  bool exact_log_probabilities =
      false;  // the engine promises the learner's bits at lag 0: a difference is warned of
};

// What a Trainer works with; all but learner and source may be absent. References must outlive it.
struct TrainerParts {
  Learner& learner;
  RolloutSource& source;
  Evaluator* evaluator = nullptr;
  CheckpointStore* checkpoints = nullptr;
  Pool* blocking = nullptr;  // where files are written; absent: on the loop thread
  // Called on the loop thread, steps 1, 2, ... in order, evaluations in order of their step.
  std::function<void(int64_t step, const MetricMap& metrics)> on_step;
  std::function<void(int64_t step, const Evaluation& evaluation)> on_evaluation;
};

// The counter of steps in which no group's rewards differed, in TrainState::counters and the metrics.
constexpr const char* kStepsWithoutVariance = "steps_without_variance";

struct TrainSummary {
  TrainState state;
  bool interrupted = false;
  std::optional<std::filesystem::path> checkpoint;  // the last one saved
};

// Reinforcement learning, the learner's side. A step consumes one batch and makes one optimizer update:
//
//   next_batch -> build_training_batch -> policy_step -> snapshot -> step_finished -> checkpoint -> metrics
//
// `step` counts batches, `version` counts updates. A batch without a trainable token (all groups without
// variance, all rows failed) is a step without an update: weights, moments and version stay as they are, it
// is counted in `skipped_steps`, and schedules and the task stream move on. Several steps in succession
// without variance are warned of. Learning-rate schedules are functions of the step.
//
// The position of a checkpoint is taken before the weights are handed on, so that a run resumed from it does
// what the uninterrupted one did; a synchronous run ends in the same bits.
class Trainer {
 public:
  // `start`: where to begin; of a resumed run the state of its checkpoint, whose weights and optimizer the
  // learner must hold by now. Settings under which nothing could be learned are refused with Error(kInput).
  Trainer(TrainerOptions options, TrainerParts parts, TrainState start);
  ~Trainer();

  // Runs to the last step, to the end of the source or to request_stop. Ends with a checkpoint and after
  // every evaluation; after request_stop without those that still ran. Call once.
  Task<TrainSummary> run();

  // Finishes the step in training, saves and ends; a wait for a batch is given up. Loop thread.
  void request_stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error(kInput) for settings under which nothing could ever be learned, and logs a warning for those
// that make it unlikely (a learning rate of 0).
void check_training(const TrainConfig& config, int64_t group_size, double temperature);

}  // namespace stoker
