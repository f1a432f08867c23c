#include "compute/cpu/column_pass.h"

#include <cstring>

namespace stoker::cpu {
namespace {

// Packed weights of a layer below which they stay in the caches between two passes.
constexpr int64_t kLeastBytes = int64_t{1} << 20;

// The thread's part of `columns`, whole panels.
Range columns_of(int columns, int threads, int thread) { return part_of(columns, threads, thread, kLanes); }

}  // namespace

bool ColumnPass::suits(const PackedWeights& weights, int rows, int threads) {
  const DecoderShape& s = weights.shape;
  const int64_t layer = s.hidden_padded * (s.qkv_width + s.query_width + 3 * s.ffn_padded);
  return threads > 1 && rows <= kMostRows && layer * bytes_of(weights.type) >= kLeastBytes;
}

void ColumnPass::lay_out(const PackedWeights& weights, int rows, int threads) {
  const DecoderShape& s = weights.shape;
  rows_ = rows;
  threads_ = threads;
  float* next = shared_.reserve(rows * (s.qkv_width + 2 * s.query_width + s.hidden_padded + s.ffn_padded));
  const auto take = [&](int64_t width) {
    float* part = next;
    next += rows * width;
    return part;
  };
  activations_ = {};
  activations_.qkv = take(s.qkv_width);
  activations_.query = take(s.query_width);
  activations_.attention = take(s.query_width);
  out_ = take(s.hidden_padded);
  activation_ = take(s.ffn_padded);
  own_.resize(threads);
  for (Own& own : own_) {
    own.stream = own.memory.reserve(rows * 2 * (s.hidden_padded + s.ffn_padded) + s.kv_width);
    own.normed = own.stream + rows * s.hidden_padded;
    own.gate_up = own.normed + rows * s.hidden_padded;
    own.key = own.gate_up + rows * 2 * s.ffn_padded;
  }
}

void ColumnPass::multiply(const PackedMatrix& w, const float* a, int columns, float* out, int64_t stride,
                          int thread) {
  const Range range = columns_of(columns, threads_, thread);
  if (range.begin >= range.end) return;
  kernels().matmul(rows_, w.depth, range.end - range.begin, {a, w.depth, 1}, w.right_from(range.begin),
                   out + range.begin, stride, Write::kStore);
}

// What attention or MLP gave, through the norm behind it where there is one.
void ColumnPass::add_to_stream(const PackedWeights& weights, const std::vector<float>& norm, Own& own) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const int64_t width = s.hidden_padded;
  const float* added = out_;
  if (!norm.empty()) {
    k.rms_norm(rows_, s.hidden, out_, width, norm.data(), s.epsilon, own.normed, width);
    added = own.normed;
  }
  for (int i = 0; i < rows_; ++i) {
    k.add_bias(1, static_cast<int>(width), added + i * width, own.stream + i * width, width);
  }
}

// Of the layer's input: the thread's columns of Q, K and V.
void ColumnPass::project(const PackedWeights& weights, int layer, const ForwardRows& rows, int thread) {
  const DecoderShape& s = weights.shape;
  const PackedLayer& w = weights.layers[layer];
  Own& own = own_[thread];
  if (layer == 0) {
    embed(weights, rows, 0, rows_, own.stream);
  } else {
    add_to_stream(weights, weights.layers[layer - 1].post_mlp_norm, own);
  }
  kernels().rms_norm(rows_, s.hidden, own.stream, s.hidden_padded, w.attention_norm.data(), s.epsilon,
                     own.normed, s.hidden_padded);
  multiply(w.qkv, own.normed, w.qkv.columns, activations_.qkv, s.qkv_width, thread);
}

// The thread's tasks: bias, rotation and cache of their heads, then attention.
void ColumnPass::attend(const PackedWeights& weights, int layer, const ForwardRows& rows, int thread) {
  const DecoderShape& s = weights.shape;
  Own& own = own_[thread];
  const Range range = part_of_tasks(rows, threads_, thread);
  for (int t = range.begin; t < range.end; ++t) {
    const AttentionTask& task = rows.tasks[t];
    const int first = rows.sequences[task.sequence].first_row;
    for (int row = first + task.begin; row < first + task.end; ++row) {
      float* qkv = activations_.qkv + row * s.qkv_width;
      finish_heads(weights, layer, rows, row, {task.kv_head, task.kv_head + 1}, qkv,
                   activations_.query + row * s.query_width, own.key);
    }
    attention(weights, layer, rows, t, t + 1, activations_, own.scratch);
  }
}

void ColumnPass::project_out(const PackedWeights& weights, int layer, int thread) {
  const PackedMatrix& w = weights.layers[layer].output;
  multiply(w, activations_.attention, w.columns, out_, weights.shape.hidden_padded, thread);
}

void ColumnPass::gate(const PackedWeights& weights, int layer, int thread) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const PackedLayer& w = weights.layers[layer];
  Own& own = own_[thread];
  add_to_stream(weights, w.post_attention_norm, own);
  k.rms_norm(rows_, s.hidden, own.stream, s.hidden_padded, w.mlp_norm.data(), s.epsilon, own.normed,
             s.hidden_padded);
  const Range range = columns_of(static_cast<int>(s.ffn_padded), threads_, thread);
  const int width = range.end - range.begin;
  if (width == 0) return;
  for (int half = 0; half < 2; ++half) {
    const auto first = static_cast<int>(half * s.ffn_padded + range.begin);
    k.matmul(rows_, w.gate_up.depth, width, {own.normed, s.hidden_padded, 1}, w.gate_up.right_from(first),
             own.gate_up + half * width, 2 * int64_t{width}, Write::kStore);
  }
  const auto gated = s.activation == Activation::kSilu ? k.swiglu : k.geglu;
  gated(rows_, width, own.gate_up, 2 * int64_t{width}, activation_ + range.begin, s.ffn_padded);
}

void ColumnPass::project_down(const PackedWeights& weights, int layer, int thread) {
  const PackedMatrix& w = weights.layers[layer].down;
  multiply(w, activation_, w.columns, out_, weights.shape.hidden_padded, thread);
}

// The thread's part of the vocabulary.
void ColumnPass::head(const PackedWeights& weights, std::span<const int32_t> logit_rows, int vocabulary,
                      float* logits, int thread) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const int64_t width = s.hidden_padded;
  Own& own = own_[thread];
  add_to_stream(weights, weights.layers[s.layers - 1].post_mlp_norm, own);
  const int count = static_cast<int>(logit_rows.size());
  for (int i = 0; i < count; ++i) {
    k.rms_norm(1, s.hidden, own.stream + logit_rows[i] * width, width, weights.final_norm.data(), s.epsilon,
               own.normed + i * width, width);
  }
  const Range range = columns_of(vocabulary, threads_, thread);
  const int columns = range.end - range.begin;
  if (columns == 0 || count == 0) return;
  k.matmul(count, weights.head.depth, columns, {own.normed, width, 1}, weights.head.right_from(range.begin),
           logits + range.begin, vocabulary, Write::kStore);
  cap_logits(s, count, columns, logits + range.begin, vocabulary);
}

void ColumnPass::run(const PackedWeights& weights, const ForwardRows& rows,
                     std::span<const int32_t> logit_rows, int vocabulary, float* logits, Parallel& parallel) {
  const int threads = parallel.threads();
  lay_out(weights, rows.count(), threads);
  for (int l = 0; l < weights.shape.layers; ++l) {
    parallel.for_each(threads, [&](int t) { project(weights, l, rows, t); });
    parallel.for_each(threads, [&](int t) { attend(weights, l, rows, t); });
    parallel.for_each(threads, [&](int t) { project_out(weights, l, t); });
    parallel.for_each(threads, [&](int t) { gate(weights, l, t); });
    parallel.for_each(threads, [&](int t) { project_down(weights, l, t); });
  }
  parallel.for_each(threads, [&](int t) { head(weights, logit_rows, vocabulary, logits, t); });
}

}  // namespace stoker::cpu
