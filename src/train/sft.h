#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "async/pool.h"
#include "async/task.h"
#include "base/metrics.h"
#include "compute/learner.h"
#include "train/checkpoint.h"
#include "train/options.h"
#include "train/sft_example.h"

namespace stoker {

// What an SftTrainer works with; references must outlive it.
struct SftParts {
  Learner& learner;
  const SftExampleSource& examples;
  CheckpointStore* checkpoints = nullptr;
  Pool* blocking = nullptr;  // where files are written; absent: on the loop thread
  std::function<void(int64_t step, const MetricMap& metrics)> on_step;  // on the loop thread, in order
};

struct SftSummary {
  TrainState state;
  bool interrupted = false;
  bool converged = false;                           // ended by stop_loss
  std::optional<std::filesystem::path> checkpoint;  // the last one saved
};

// Supervised fine-tuning: each step takes the next batch_size examples of the stream and makes one update
// with the mean cross-entropy over their trained tokens, one denominator for the whole step whatever the
// micro-batches. The same examples, options and start give the same bits, also when the run was interrupted
// and resumed.
//
// An example longer than the model's context, or a loss that is no number, throws an Error that names it.
class SftTrainer {
 public:
  // `start`: of a resumed run the state of its checkpoint, whose weights and optimizer the learner holds by
  // now.
  SftTrainer(SftConfig config, CheckpointConfig checkpoint, SftParts parts, TrainState start);
  ~SftTrainer();

  // Runs to the last step, to stop_loss or to request_stop; ends with a checkpoint. Call once.
  Task<SftSummary> run();

  // Finishes the step in work, saves and ends. Loop thread.
  void request_stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker
