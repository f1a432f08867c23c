#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "compute/cpu/packed_weights.h"

namespace stoker::cpu {

// The forward pass, as stages over rows (tokens) and attention tasks, the same in sampler and trainer. Every
// row is computed alone, so any split of rows or tasks over threads gives the same bits.
//
// Keys and values lie in KvBlocks. Inside a layer of a block, positions are rounded up to 16 and
//   keys   [positions / 16][kv_width][16]: panels, the right operand of Q K^T;
//   values [positions][kv_width]:          rows, the right operand of P V;
// in float32, and in bfloat16 with the depths of the products in pairs:
//   keys   [positions / 16][kv_width / 2][16][2], values [positions / 2][kv_width][2].

// `count` positions of a block from `start`, a multiple of 16.
struct ContextRun {
  const void* block = nullptr;
  int64_t positions = 0;  // of the block, padded
  int start = 0;
  int count = 0;
};

// Consecutive rows of the pass that continue one context. The runs cover positions 0 .. position + rows.
struct Sequence {
  int first_row = 0;
  int rows = 0;
  int position = 0;
  std::span<const ContextRun> context;
};

// Where a row's key and value go.
struct KvSlot {
  void* block = nullptr;
  int64_t positions = 0;
  int position = 0;
};

struct Range {
  int begin = 0, end = 0;
};

// Queries [begin, end) of one sequence under one KV head.
struct AttentionTask {
  int sequence = 0;
  int kv_head = 0;
  int begin = 0, end = 0;
};

// A pass over M rows.
struct ForwardRows {
  std::vector<int32_t> token;     // [M]
  std::vector<int32_t> position;  // [M]
  std::vector<KvSlot> slot;       // [M]
  std::vector<Sequence> sequences;
  std::vector<AttentionTask> tasks;
  bool one_layer = false;  // blocks hold keys and values of the layer at hand alone
  int cache_layer(int layer) const { return one_layer ? 0 : layer; }  // which one of a block
  int count() const { return static_cast<int>(token.size()); }
};

// Activations of one layer, rows of the widths of DecoderShape. Inference points all layers at the same
// memory and lets `middle` and `output` be `input`; training keeps each.
struct LayerActivations {
  float* input = nullptr;          // [M, hidden_padded] residual stream
  float* qkv = nullptr;            // [M, qkv_width] with bias, before QK-norm and rotation
  float* query = nullptr;          // [M, query_width] rotated
  float* attention = nullptr;      // [M, query_width]
  float* softmax = nullptr;        // [M, heads, 2] maximum and sum of each row; null: not kept
  float* attention_out = nullptr;  // [M, hidden_padded] before the norm behind attention; null: not kept
  float* middle = nullptr;         // [M, hidden_padded] residual stream after attention
  float* gate_up = nullptr;        // [M, 2 ffn_padded]; null: not kept
  float* mlp_out = nullptr;        // [M, hidden_padded] before the norm behind the MLP; null: not kept
  float* output = nullptr;         // [M, hidden_padded] residual stream after the MLP; null: not computed
};

// Keys and values of the layer `layer` of a block of `positions` positions, under one KV head, from the
// position `from` on, a multiple of 16: the right operands of Q K^T and P V.
RightMatrix keys_of(const PackedWeights& weights, const void* block, int64_t positions, int layer,
                    int kv_head, int from);
RightMatrix values_of(const PackedWeights& weights, const void* block, int64_t positions, int layer,
                      int kv_head, int from);
// The key and the value [kv_width] in a slot, widened.
void load_key_value(const PackedWeights& weights, int layer, const KvSlot& slot, float* key, float* value);

// Scratch of one thread; grows as needed.
struct ForwardScratch {
  FloatBuffer rows;    // normed input, gate_up and activation of a block of rows
  FloatBuffer scores;  // attention scores of a block of queries
};

// Cuts the attention of all sequences into tasks of similar size, in order.
void make_attention_tasks(const DecoderShape& shape, ForwardRows& rows);

// Embedding rows [begin, end) into `output` [M, hidden_padded].
void embed(const PackedWeights& weights, const ForwardRows& rows, int begin, int end, float* output);
// Rows [begin, end): norm, Q, K and V projections, QK-norm, rotation; keys and values into their slots.
void attention_inputs(const PackedWeights& weights, int layer, const ForwardRows& rows, int begin, int end,
                      const LayerActivations& activations, ForwardScratch& scratch);
// Of a row's Q, K and V [qkv_width]: bias, QK-norm and rotation of the KV heads `kv_heads` and their queries;
// keys and values into the row's slot, queries into `query` [query_width]. `key` [kv_width] is scratch.
void finish_heads(const PackedWeights& weights, int layer, const ForwardRows& rows, int row, Range kv_heads,
                  float* qkv, float* query, float* key);
// Tasks [begin, end): softmax(Q K^T) V into `attention`.
void attention(const PackedWeights& weights, int layer, const ForwardRows& rows, int begin, int end,
               const LayerActivations& activations, ForwardScratch& scratch);
// Rows [begin, end): output projection, norm and MLP, both added to the residual stream.
void attention_outputs(const PackedWeights& weights, int layer, int begin, int end,
                       const LayerActivations& activations, ForwardScratch& scratch);
// Scores [columns] through the attention's soft-cap, if it has one; returns the factor that is left for the
// softmax.
float cap_scores(const DecoderShape& shape, int columns, float* scores);
// Makes the scores of positions from `base` on that the query at `position` does not see in a layer of this
// window minus infinity.
void hide_scores(int base, int window, int position, float* scores);
// Rows of logits through the final soft-cap, if there is one.
void cap_logits(const DecoderShape& shape, int count, int vocabulary, float* logits, int64_t stride);
// Final norm and LM head of `count` rows at `input` [count, stride]; logits [count, logits_stride].
void language_model_head(const PackedWeights& weights, int count, const float* input, int64_t stride,
                         int vocabulary, float* normed, float* logits, int64_t logits_stride);

// Splits [0, count), or tasks by their work, into `parts` similar ranges; boundaries are multiples of
// `grain`.
Range part_of(int count, int parts, int index, int grain = 1);
Range part_of_tasks(const ForwardRows& rows, int parts, int index);

// First position that a query at `position` sees in a layer of this window (0: all).
inline int first_visible(int window, int position) {
  return window == 0 ? 0 : std::max(0, position + 1 - window);
}
// The position that column 0 of a block's scores stands for, when its first query sees from `first` on: a
// multiple of 16, so that sums keep the lanes of absolute positions, and low enough for the whole panels of
// every run.
inline int score_base(int first) { return std::max(0, first / kLanes * kLanes - kLanes); }

// Calls body(run, start, column, count) for the parts of a sequence's runs in positions [first, limit), cut
// to whole panels in front: `count` positions of the block from `start`, with their scores from `column` on.
template <typename Body>
void for_each_visible(const Sequence& sequence, int first, int limit, Body body) {
  const int base = score_base(first);
  int position = 0;
  for (const ContextRun& run : sequence.context) {
    if (position >= limit) break;
    const int count = std::min(run.count, limit - position);
    const int skip = std::max(0, first - position) / kLanes * kLanes;
    if (skip < count) body(run, run.start + skip, position + skip - base, count - skip);
    position += count;
  }
}

// Query rows that attention computes together, a multiple of six: scores, `stride` a row, fit `score_floats`.
constexpr int kMaxQueryBlock = 48;
int query_block(int64_t stride, int64_t score_floats);

}  // namespace stoker::cpu
