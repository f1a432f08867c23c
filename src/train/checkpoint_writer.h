#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "async/pool.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "train/checkpoint.h"

namespace stoker {

// Saves checkpoints on their cadence without blocking the loop thread. `store` may be null: nothing is saved.
// The learner must stay idle while save() runs; a save is not given up half way.
class CheckpointWriter {
 public:
  // `start_step`: of which there is nothing to save.
  CheckpointWriter(CheckpointStore* store, Pool* blocking, int64_t every_steps, int64_t start_step)
      : store_(store), blocking_(blocking), every_steps_(every_steps), saved_step_(start_step) {}

  // Whether the cadence asks for `step`.
  bool due(int64_t step) const;
  // Saves unless the state's step is saved already.
  Task<> save(const TrainState& state, const Weights& weights, const Learner& learner);
  Task<> save_best(const Weights& weights, int64_t step, double score, const MetricMap& metrics);

  CheckpointStore* store() const { return store_; }
  const std::optional<std::filesystem::path>& last_saved() const { return last_saved_; }

 private:
  Task<> write(std::function<void()> action);  // one at a time

  CheckpointStore* store_;
  Pool* blocking_;
  int64_t every_steps_;
  int64_t saved_step_;
  std::optional<std::filesystem::path> last_saved_;
  Semaphore turn_{1, "checkpoints"};
};

}  // namespace stoker
