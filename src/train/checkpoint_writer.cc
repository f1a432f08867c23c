#include "train/checkpoint_writer.h"

#include <utility>

#include "async/cancellation.h"

namespace stoker {

Task<> CheckpointWriter::write(std::function<void()> action) {
  Permit turn = co_await turn_.acquire();
  if (blocking_ == nullptr) {
    action();
    co_return;
  }
  co_await shielded(blocking_->run(std::move(action)));
}

bool CheckpointWriter::due(int64_t step) const {
  return store_ != nullptr && step != saved_step_ && every_steps_ > 0 && step % every_steps_ == 0;
}

Task<> CheckpointWriter::save(const TrainState& state, const Weights& weights, const Learner& learner) {
  if (store_ == nullptr || state.step == saved_step_) co_return;
  Checkpoint saved;
  co_await write([&] { saved = store_->save(state, weights, learner); });
  saved_step_ = state.step;
  last_saved_ = saved.folder;
}

Task<> CheckpointWriter::save_best(const Weights& weights, int64_t step, double score,
                                   const MetricMap& metrics) {
  if (store_ == nullptr) co_return;
  co_await write([&] { store_->save_best(weights, step, score, metrics); });
}

}  // namespace stoker
