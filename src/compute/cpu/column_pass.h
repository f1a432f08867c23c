#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "async/parallel.h"
#include "compute/cpu/forward_pass.h"

namespace stoker::cpu {

// The forward pass of a few rows through a model whose weights do not fit the processor's caches. Such a pass
// is bound by reading the weights: threads split the columns of every product, so that each weight is read by
// one thread, once, and meet five times a layer. Each thread keeps a residual stream of its own. Splitting
// rows instead, as the other passes do, would have every thread read every weight, and leave one row to one
// thread. The numbers are the same bits.
class ColumnPass {
 public:
  // With more rows the computation takes longer than reading the weights.
  static constexpr int kMostRows = 24;
  // Whether the pass is of that kind.
  static bool suits(const PackedWeights& weights, int rows, int threads);

  // At most kMostRows rows, whose attention tasks are made. `logit_rows`: rows of the pass; logits
  // [logit_rows, vocabulary].
  void run(const PackedWeights& weights, const ForwardRows& rows, std::span<const int32_t> logit_rows,
           int vocabulary, float* logits, Parallel& parallel);

 private:
  // What one thread has for itself.
  struct Own {
    FloatBuffer memory;
    float* stream = nullptr;   // [M, hidden_padded] residual stream
    float* normed = nullptr;   // [M, hidden_padded]
    float* gate_up = nullptr;  // [M, 2 x its columns]
    float* key = nullptr;      // [kv_width]
    ForwardScratch scratch;
  };

  void lay_out(const PackedWeights& weights, int rows, int threads);
  void project(const PackedWeights& weights, int layer, const ForwardRows& rows, int thread);
  void attend(const PackedWeights& weights, int layer, const ForwardRows& rows, int thread);
  void project_out(const PackedWeights& weights, int layer, int thread);
  void gate(const PackedWeights& weights, int layer, int thread);
  void project_down(const PackedWeights& weights, int layer, int thread);
  void head(const PackedWeights& weights, std::span<const int32_t> logit_rows, int vocabulary, float* logits,
            int thread);
  void add_to_stream(const PackedWeights& weights, const std::vector<float>& norm, Own& own);
  // out[:, columns] = a w[:, columns], for the thread's part of the columns.
  void multiply(const PackedMatrix& w, const float* a, int columns, float* out, int64_t stride, int thread);

  int rows_ = 0, threads_ = 1;
  FloatBuffer shared_;
  LayerActivations activations_;  // qkv, query and attention, of all threads
  float* out_ = nullptr;          // [M, hidden_padded] of attention, then of the MLP
  float* activation_ = nullptr;   // [M, ffn_padded]
  std::vector<Own> own_;
};

}  // namespace stoker::cpu
