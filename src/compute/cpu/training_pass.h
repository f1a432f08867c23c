#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "async/parallel.h"
#include "compute/batch.h"
#include "compute/cpu/forward_pass.h"
#include "compute/learner.h"
#include "compute/recompute.h"

namespace stoker::cpu {

// One batch's way through the model: the layout of its forest in rows, and what the forward pass leaves for
// the backward pass. Memory is kept when the object is used again for another batch.
//
// Work is cut into steps, each one or two parallel loops, so that the learner can give way to the engine
// between them. Steps run in order; every number is the same however they are grouped and on however many
// threads.
class TrainingPass {
 public:
  // Lays out `batch`, which must be valid. `recompute`: what of the activations a backward pass that follows
  // will compute again; absent: none follows. Throws Error(kInput) when a sequence is longer than the model's
  // positions.
  void prepare(const Batch& batch, std::shared_ptr<const PackedWeights> weights, int vocabulary,
               std::optional<Recompute> recompute);

  int step_count() const { return 2 * weights_->shape.layers + 2; }
  void run_step(int step, Parallel& parallel);
  // Floating-point operations of an average step.
  double step_cost() const;
  // Brings back the activations of `layer` that were not kept: stages 0 .. recompute_stages(layer), in order,
  // each one parallel loop. Layers follow from the last, whose activations are still there, to the first.
  int recompute_stages(int layer) const;
  void recompute(int layer, int stage, Parallel& parallel);
  // Floating-point operations of all that is computed again.
  double recompute_cost() const;
  // Once nothing more is computed: gives up the weights and keeps the memory.
  void release_weights() { weights_.reset(); }
  // After the last step.
  Scores take_scores() { return std::move(scores_); }

  // A tree of segments: only they exchange gradients of keys and values.
  struct Tree {
    std::vector<int> segments;  // ascending
    int64_t work = 0;           // query-key pairs
  };

  const PackedWeights& weights() const { return *weights_; }
  int vocabulary() const { return vocabulary_; }
  int rows() const { return rows_.count(); }
  int64_t key_positions() const { return key_positions_; }
  const ForwardRows& forward_rows() const { return rows_; }
  // Of layers behind the one at hand, what is computed again is not there any more.
  const LayerActivations& layer(int l) const { return layers_[l]; }
  const float* hidden() const { return layers_.back().output; }  // [M, hidden_padded]
  const std::vector<Tree>& trees() const { return trees_; }

  struct Prediction {
    int row = 0;
    float temperature = 1;
    SoftmaxStatistics statistics;
    float log_sum = 0;
    float entropy = 0;
  };
  int candidates() const { return candidates_; }
  const std::vector<Prediction>& predictions() const { return predictions_; }
  const std::vector<int32_t>& targets() const { return targets_; }  // [N, K]
  const float* normed() const { return normed_.data(); }            // [N, hidden_padded]

 private:
  void lay_out_segments(const Batch& batch);
  void lay_out_activations();
  bool keeps_attention() const { return recompute_ == Recompute::kNone; }
  bool keeps_mlp() const { return recompute_.has_value() && recompute_ != Recompute::kLayer; }
  void give_scratch(int threads);
  LayerActivations forward_activations(int layer) const;
  void head(int begin, int end, int thread);

  std::shared_ptr<const PackedWeights> weights_;
  int vocabulary_ = 0;
  std::optional<Recompute> recompute_;
  ForwardRows rows_;
  std::vector<ContextRun> runs_;
  std::vector<Tree> trees_;
  int64_t key_positions_ = 0;
  double attention_work_ = 0;
  std::vector<LayerActivations> layers_;
  FloatBuffer activations_, kv_, normed_;
  std::vector<Prediction> predictions_;
  std::vector<int32_t> targets_;
  int candidates_ = 1;
  Scores scores_;
  std::vector<ForwardScratch> scratch_;
  std::vector<FloatBuffer> logits_;
};

}  // namespace stoker::cpu
