#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "async/parallel.h"
#include "compute/cpu/packed_weights.h"
#include "compute/cpu/training_pass.h"
#include "compute/learner.h"
#include "model/weights.h"

namespace stoker::cpu {

// Gradients of one TrainingPass, added to those accumulated so far. Recomputes norms, rotations, activations
// and attention weights to the bits of the forward pass, and has the pass bring back what it did not keep.
// Threads own disjoint outputs and every sum has a fixed order, so gradients are the same bits at any thread
// count. Memory is kept between batches.
class BackwardPass {
 public:
  explicit BackwardPass(const ModelConfig& config);

  // `pass` (whose activations are consumed), `weights` and `gradients` must live until the last step.
  // Throws Error(kInternal) when the coefficients do not fit the batch.
  void prepare(TrainingPass& pass, const Coefficients& coefficients, const BackwardWeights& weights,
               Weights& gradients);
  int step_count() const;
  // Floating-point operations of an average step.
  double step_cost() const;
  void run_step(int step, Parallel& parallel);

 private:
  // Part of a gradient: rows `count` of dY from column `from`, to rows of `tensor` from `row`.
  struct GradientRows {
    int64_t from;
    int count;
    float* gradient;
  };
  // dW = dY^T X, the columns of X in groups: column group * padded(group width) + i of X is column group *
  // width + i.
  struct WeightProduct {
    const float* dy;
    int64_t dy_stride;
    const float* x;
    int64_t x_stride;
    int m;
    int columns, column_group;
    std::vector<GradientRows> rows;
  };

  void lay_out();
  void head_rows(int chunk, int begin, int end, int thread);
  void head_sums(int chunk, int count, int thread, int threads);
  // Gradients of the outputs of MLP and attention, before the norms behind them.
  float* mlp_out_gradient() const { return shape_.sandwich ? dmlp_out_ : dx_; }
  float* attention_out_gradient() const { return shape_.sandwich ? dattention_out_ : dmiddle_; }
  // Where the norms behind attention and MLP begin in a row of partials_.
  int64_t sandwich_partials() const {
    return 2 * shape_.hidden_padded + 2 * shape_.head_padded + shape_.qkv_width;
  }
  void mlp_backward(int l, int begin, int end, int thread);
  void prepare_attention_row(int l, int row);
  void attention_backward(int l, int thread, int threads);
  void attention_segment_backward(int l, const Sequence& sequence, int kv_head, FloatBuffer& scratch);
  void attention_block_backward(int l, const Sequence& sequence, int head, int begin, int end, float* scores,
                                int64_t stride);
  void projection_backward(int l, int begin, int end, int thread);
  void layer_step(int l, int step, int thread, int threads);
  void layer_matrices(int l, int thread, int threads);
  void layer_vectors(int l, int thread, int threads);
  void embedding_backward(int thread, int threads);
  void multiply(std::span<const WeightProduct> products, int thread, int threads);
  void multiply_units(const WeightProduct& product, std::span<const GradientRows> units,
                      FloatBuffer& scratch);

  const DecoderShape shape_;
  const DecoderTensors tensors_;
  TrainingPass* pass_ = nullptr;
  const Coefficients* coefficients_ = nullptr;
  const BackwardWeights* weights_ = nullptr;
  Weights* gradients_ = nullptr;

  std::vector<int> active_;  // predictions with a coefficient that is not zero
  int head_chunk_ = 0, head_chunks_ = 0;
  FloatBuffer head_;     // normed rows, d normed, d hidden, logits of a chunk
  FloatBuffer buffers_;  // the arrays below
  float *dx_ = nullptr, *dx_next_ = nullptr, *dmiddle_ = nullptr, *normed_attention_ = nullptr;
  float *normed_mlp_ = nullptr, *activation_ = nullptr, *dquery_ = nullptr, *dqkv_ = nullptr,
        *delta_ = nullptr;
  float *key_rows_ = nullptr, *value_panels_ = nullptr, *dkey_ = nullptr, *dvalue_ = nullptr;
  // Per block of rows: gradients of attention_norm, mlp_norm, q_norm, k_norm, QKV bias, and of the norms
  // behind attention and MLP; summed in order.
  float* partials_ = nullptr;
  // Gradients of what the norms behind MLP and attention are given; without them, those of the streams.
  float *dmlp_out_ = nullptr, *dattention_out_ = nullptr;
  int64_t partial_stride_ = 0;
  std::vector<FloatBuffer> scratch_;
};

}  // namespace stoker::cpu
