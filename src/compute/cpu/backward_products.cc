// The parts of BackwardPass that are matrix products with activations on both sides: weight gradients and
// attention.

#include <algorithm>
#include <cstring>

#include "compute/cpu/backward_pass.h"

namespace stoker::cpu {
namespace {

// Columns of X that are packed and multiplied together, and rows over which one chain of additions runs.
constexpr int kUnitColumns = 2 * kLanes;
constexpr int kProductRows = 256;
constexpr int kScoreFloats = 6144;
constexpr int kMaxQueryBlock = 48;

int query_block(int64_t stride) {
  return std::clamp(static_cast<int>(kScoreFloats / stride) / 6 * 6, 6, kMaxQueryBlock);
}

}  // namespace

// dW[:, unit] += dY^T X[:, unit], in blocks of rows; the panel of X is packed first because its rows lie far
// apart.
void BackwardPass::multiply_columns(const WeightProduct& product, int64_t source, int target, int count,
                                    FloatBuffer& scratch) {
  const Kernels& k = kernels();
  const int panels = static_cast<int>(padded(count) / kLanes);
  float* packed = scratch.reserve(kProductRows * kUnitColumns);
  for (int m = 0; m < product.m; m += kProductRows) {
    const int depth = std::min(kProductRows, product.m - m);
    for (int p = 0; p < panels; ++p) {
      const float* in = product.x + m * product.x_stride + source + p * kLanes;
      for (int r = 0; r < depth; ++r) {
        std::memcpy(packed + (p * depth + r) * kLanes, in + r * product.x_stride, sizeof(float) * kLanes);
      }
    }
    for (const GradientRows& rows : product.rows) {
      k.matmul(
          rows.count, depth, count, {product.dy + m * product.dy_stride + rows.from, 1, product.dy_stride},
          {packed, int64_t{depth} * kLanes, kLanes}, rows.gradient + target, product.columns, Write::kAdd);
    }
  }
}

void BackwardPass::multiply(std::span<const WeightProduct> products, int thread, int threads) {
  // Units in order, each thread a run of them of similar work; a unit is computed by one thread alone.
  int64_t total = 0;
  const auto rows_of = [](const WeightProduct& product) {
    int64_t rows = 0;
    for (const GradientRows& part : product.rows) rows += part.count;
    return rows;
  };
  for (const WeightProduct& product : products) total += rows_of(product) * product.columns;
  int64_t done = 0;
  for (const WeightProduct& product : products) {
    const int64_t rows = rows_of(product);
    for (int group = 0; group * product.column_group < product.columns; ++group) {
      for (int from = 0; from < product.column_group; from += kUnitColumns) {
        const int count = std::min(kUnitColumns, product.column_group - from);
        const int64_t owner = (2 * done + rows * count) * threads / (2 * total);
        done += rows * count;
        if (owner != thread) continue;
        multiply_columns(product, group * padded(product.column_group) + from,
                         group * product.column_group + from, count, scratch_[thread]);
      }
    }
  }
}

// Keys as rows, values as panels, delta = dO . O for each head, and zeros to add gradients to.
void BackwardPass::prepare_attention_row(int l, int row) {
  const Kernels& k = kernels();
  const DecoderShape& s = shape_;
  const int64_t position = pass_->forward_rows().slot[row].position;
  const KvLayer kv = kv_layer(s, pass_->kv_block(), pass_->key_positions(), l);
  const int64_t panel = position / kLanes * kLanes * s.kv_width + position % kLanes;
  for (int64_t j = 0; j < s.kv_width; ++j) {
    key_rows_[position * s.kv_width + j] = kv.keys[panel + j * kLanes];
    value_panels_[panel + j * kLanes] = kv.values[position * s.kv_width + j];
  }
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
  const int64_t stride = padded(sequence.position + sequence.rows) + kLanes;
  const int step = query_block(stride);
  float* scores = scratch.reserve(2 * step * stride);
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
  const int limit = sequence.position + end;
  const int64_t first = sequence.first_row + begin;
  const int64_t column = kv_head * s.head_padded;
  const float* query = a.query + first * s.query_width + head * s.head_padded;
  float* dout = dquery_ + first * s.query_width + head * s.head_padded;
  float* dscores = scores + rows * stride;
  const KvLayer kv = kv_layer(s, pass_->kv_block(), pass_->key_positions(), l);
  const auto for_each_run = [&](auto body) {
    int offset = 0;
    for (const ContextRun& run : sequence.context) {
      if (offset >= limit) break;
      const int count = std::min(run.count, limit - offset);
      body(run, offset, count);
      offset += count;
    }
  };
  for_each_run([&](const ContextRun& run, int offset, int count) {
    const int64_t panel = run.start * s.kv_width + column * kLanes;
    const int columns = static_cast<int>(padded(count));
    k.matmul(rows, s.head_dim, columns, {query, s.query_width, 1},
             {kv.keys + panel, s.kv_width * kLanes, kLanes}, scores + offset, stride, Write::kStore);
    k.matmul(rows, s.head_dim, columns, {dout, s.query_width, 1},
             {value_panels_ + panel, s.kv_width * kLanes, kLanes}, dscores + offset, stride, Write::kStore);
  });
  for (int r = 0; r < rows; ++r) {
    const int64_t index = (first + r) * s.heads + head;
    k.softmax_row_backward(scores + r * stride, dscores + r * stride, sequence.position + begin + r + 1,
                           static_cast<int>(padded(limit)), s.score_scale, a.softmax[2 * index],
                           a.softmax[2 * index + 1], delta_[index]);
  }
  for_each_run([&](const ContextRun& run, int offset, int count) {
    const int64_t row = run.start * s.kv_width + column;
    k.matmul(count, rows, width, {scores + offset, 1, stride}, {dout, kLanes, s.query_width}, dvalue_ + row,
             s.kv_width, Write::kAdd);
    k.matmul(count, rows, width, {dscores + offset, 1, stride}, {query, kLanes, s.query_width}, dkey_ + row,
             s.kv_width, Write::kAdd);
  });
  for_each_run([&](const ContextRun& run, int offset, int count) {
    k.matmul(rows, count, width, {dscores + offset, stride, 1},
             {key_rows_ + run.start * s.kv_width + column, kLanes, s.kv_width}, dout, s.query_width,
             offset == 0 ? Write::kStore : Write::kContinue);
  });
}

}  // namespace stoker::cpu
