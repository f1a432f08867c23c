// The parts of BackwardPass that are matrix products with activations on both sides: weight gradients and
// attention.

#include <algorithm>
#include <cstring>

#include "compute/cpu/backward_pass.h"

namespace stoker::cpu {
namespace {

// Rows over which one chain of additions runs, and rows of W that a thread takes together (a multiple of
// every tile).
constexpr int kProductRows = 128;
constexpr int kUnitRows = 24;
constexpr int kBackwardScoreFloats = 6144;

}  // namespace

// The part of dW += dY^T X whose rows of W lie in `units`, in blocks of rows of X and dY. Both are packed
// first, row by row in the order of memory, because their rows lie far apart and each is read many times.
void BackwardPass::multiply_units(const WeightProduct& product, std::span<const GradientRows> units,
                                  FloatBuffer& scratch) {
  const Kernels& k = kernels();
  const int64_t width = product.columns / product.column_group * padded(product.column_group);
  const int64_t unit_floats = kProductRows * kUnitRows;
  float* right = scratch.reserve(kProductRows * width + static_cast<int64_t>(units.size()) * unit_floats);
  float* left = right + kProductRows * width;
  for (int m = 0; m < product.m; m += kProductRows) {
    const int depth = std::min(kProductRows, product.m - m);
    for (int r = 0; r < depth; ++r) {
      const float* x = product.x + (m + r) * product.x_stride;
      for (int64_t p = 0; p < width; p += kLanes) {
        std::memcpy(right + p * depth + r * kLanes, x + p, sizeof(float) * kLanes);
      }
      const float* dy = product.dy + (m + r) * product.dy_stride;
      for (size_t u = 0; u < units.size(); ++u) {
        float* out = left + static_cast<int64_t>(u) * unit_floats + r * kUnitRows;
        if (units[u].count == kUnitRows) {
          std::memcpy(out, dy + units[u].from, sizeof(float) * kUnitRows);
        } else {
          std::copy_n(dy + units[u].from, units[u].count, out);
        }
      }
    }
    for (size_t u = 0; u < units.size(); ++u) {
      for (int group = 0; group * product.column_group < product.columns; ++group) {
        k.matmul(units[u].count, depth, product.column_group,
                 {left + static_cast<int64_t>(u) * unit_floats, 1, kUnitRows},
                 {right + group * padded(product.column_group) * depth, int64_t{depth} * kLanes, kLanes},
                 units[u].gradient + group * product.column_group, product.columns, Write::kAdd);
      }
    }
  }
}

void BackwardPass::multiply(std::span<const WeightProduct> products, int thread, int threads) {
  // Units of rows of W in order, each thread a run of them of similar work; a unit is computed by one thread
  // alone.
  int64_t total = 0, done = 0;
  for (const WeightProduct& product : products) {
    for (const GradientRows& rows : product.rows) total += int64_t{rows.count} * product.columns;
  }
  std::vector<GradientRows> units;
  for (const WeightProduct& product : products) {
    units.clear();
    for (const GradientRows& rows : product.rows) {
      for (int row = 0; row < rows.count; row += kUnitRows) {
        const int count = std::min(kUnitRows, rows.count - row);
        const int64_t work = int64_t{count} * product.columns;
        const int64_t owner = (2 * done + work) * threads / (2 * total);
        done += work;
        if (owner != thread) continue;
        units.push_back({rows.from + row, count, rows.gradient + int64_t{row} * product.columns});
      }
    }
    if (!units.empty()) multiply_units(product, units, scratch_[thread]);
  }
}

// Keys as rows, values as panels, delta = dO . O for each head, and zeros to add gradients to.
void BackwardPass::prepare_attention_row(int l, int row) {
  const Kernels& k = kernels();
  const DecoderShape& s = shape_;
  const KvSlot& slot = pass_->forward_rows().slot[row];
  const int64_t position = slot.position;
  const int64_t panel = position / kLanes * kLanes * s.kv_width + position % kLanes;
  // The value passes through the row of its gradient, which is zeroed below.
  float* value = dvalue_ + position * s.kv_width;
  load_key_value(pass_->weights(), pass_->forward_rows().cache_layer(l), slot,
                 key_rows_ + position * s.kv_width, value);
  for (int64_t j = 0; j < s.kv_width; ++j) value_panels_[panel + j * kLanes] = value[j];
  std::memset(dkey_ + position * s.kv_width, 0, sizeof(float) * s.kv_width);
  std::memset(dvalue_ + position * s.kv_width, 0, sizeof(float) * s.kv_width);
  const float* out = pass_->layer(l).attention + row * s.query_width;
  const float* dout = dquery_ + row * s.query_width;
  for (int h = 0; h < s.heads; ++h) {
    delta_[row * s.heads + h] =
        k.dot(static_cast<int>(s.head_padded), out + h * s.head_padded, dout + h * s.head_padded);
  }
}

void BackwardPass::attention_backward(int l, int thread, int threads) {
  // Segments of a tree add to their ancestors' keys and values: a tree under one KV head is one thread's.
  int64_t total = 0, done = 0;
  for (const TrainingPass::Tree& tree : pass_->trees()) total += tree.work * shape_.kv_heads;
  for (const TrainingPass::Tree& tree : pass_->trees()) {
    for (int head = 0; head < shape_.kv_heads; ++head) {
      const int64_t owner = (2 * done + tree.work) * threads / (2 * total);
      done += tree.work;
      if (owner != thread) continue;
      for (const int segment : tree.segments) {
        attention_segment_backward(l, pass_->forward_rows().sequences[segment], head, scratch_[thread]);
      }
    }
  }
}

void BackwardPass::attention_segment_backward(int l, const Sequence& sequence, int kv_head,
                                              FloatBuffer& scratch) {
  const int window = pass_->weights().layers[l].window;
  // A block's queries see a window behind the first of them, and themselves.
  const int64_t widest = padded(sequence.position + sequence.rows);
  const int64_t stride =
      (window == 0 ? widest : std::min(widest, padded(window + kMaxQueryBlock) + 2 * kLanes)) + kLanes;
  const int step = query_block(stride, kBackwardScoreFloats);
  float* scores = scratch.reserve((2 * step + 1) * stride);
  for (int begin = 0; begin < sequence.rows; begin += step) {
    const int end = std::min(sequence.rows, begin + step);
    for (int h = kv_head * shape_.group; h < (kv_head + 1) * shape_.group; ++h) {
      attention_block_backward(l, sequence, h, begin, end, scores, stride);
    }
  }
}

// Queries [begin, end) of one head. dquery_ holds the gradient of the attention's output and receives the
// queries'.
void BackwardPass::attention_block_backward(int l, const Sequence& sequence, int head, int begin, int end,
                                            float* scores, int64_t stride) {
  const Kernels& k = kernels();
  const DecoderShape& s = shape_;
  const LayerActivations& a = pass_->layer(l);
  const int rows = end - begin, kv_head = head / s.group, width = static_cast<int>(s.head_padded);
  const int limit = sequence.position + end, window = pass_->weights().layers[l].window;
  const int start = first_visible(window, sequence.position + begin), base = score_base(start);
  const int columns = static_cast<int>(padded(limit)) - base;
  const int64_t first = sequence.first_row + begin;
  const int64_t head_column = kv_head * s.head_padded;
  const int cached = pass_->forward_rows().cache_layer(l);
  const float* query = a.query + first * s.query_width + head * s.head_padded;
  float* dout = dquery_ + first * s.query_width + head * s.head_padded;
  float* dscores = scores + rows * stride;
  float* capped = dscores + rows * stride;  // one row
  for_each_visible(sequence, start, limit, [&](const ContextRun& run, int from, int column, int count) {
    const int64_t panel = from * s.kv_width + head_column * kLanes;
    const int panels = static_cast<int>(padded(count));
    k.matmul(rows, s.head_dim, panels, {query, s.query_width, 1},
             keys_of(pass_->weights(), run.block, run.positions, cached, kv_head, from), scores + column,
             stride, Write::kStore);
    k.matmul(rows, s.head_dim, panels, {dout, s.query_width, 1},
             {value_panels_ + panel, s.kv_width * kLanes, kLanes}, dscores + column, stride, Write::kStore);
  });
  for (int r = 0; r < rows; ++r) {
    const int64_t index = (first + r) * s.heads + head;
    const int position = sequence.position + begin + r;
    float *row = scores + r * stride, *drow = dscores + r * stride;
    const float scale = cap_scores(s, columns, row);
    if (s.attention_cap != 0) std::memcpy(capped, row, sizeof(float) * columns);
    hide_scores(base, window, position, row);
    std::fill_n(drow, std::max(0, first_visible(window, position) - base), 0.0f);
    k.softmax_row_backward(row, drow, position + 1 - base, columns, scale, a.softmax[2 * index],
                           a.softmax[2 * index + 1], delta_[index]);
    if (s.attention_cap != 0) {
      k.soft_cap_backward(columns, s.score_scale / s.attention_cap, s.attention_cap, capped, drow);
    }
  }
  for_each_visible(sequence, start, limit, [&](const ContextRun&, int from, int column, int count) {
    const int64_t row = from * s.kv_width + head_column;
    k.matmul(count, rows, width, {scores + column, 1, stride}, {dout, kLanes, s.query_width}, dvalue_ + row,
             s.kv_width, Write::kAdd);
    k.matmul(count, rows, width, {dscores + column, 1, stride}, {query, kLanes, s.query_width}, dkey_ + row,
             s.kv_width, Write::kAdd);
  });
  Write write = Write::kStore;
  for_each_visible(sequence, start, limit, [&](const ContextRun&, int from, int column, int count) {
    k.matmul(rows, count, width, {dscores + column, stride, 1},
             {key_rows_ + from * s.kv_width + head_column, kLanes, s.kv_width}, dout, s.query_width, write);
    write = Write::kContinue;
  });
}

}  // namespace stoker::cpu
