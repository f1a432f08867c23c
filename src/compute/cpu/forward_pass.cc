#include "compute/cpu/forward_pass.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "model/float_types.h"

namespace stoker::cpu {
namespace {

// Rows that pass through a whole stage together: their activations stay in the second cache level.
constexpr int kForwardRowBlock = 48;
// Scores of a block of queries stay in the first cache level, within these bounds.
constexpr int kForwardScoreFloats = 12288;

}  // namespace

int query_block(int64_t stride, int64_t score_floats) {
  return std::clamp(static_cast<int>(score_floats / stride) / 6 * 6, 6, kMaxQueryBlock);
}

// `offset` elements into the keys (plane 0) or values (plane 1) of a layer.
static const void* kv_at(const PackedWeights& weights, const void* block, int64_t positions, int layer,
                         int plane, int64_t offset) {
  const int64_t elements = (2 * layer + plane) * positions * weights.shape.kv_width + offset;
  return static_cast<const std::byte*>(block) + elements * bytes_of(weights.type);
}

RightMatrix keys_of(const PackedWeights& weights, const void* block, int64_t positions, int layer,
                    int kv_head, int from) {
  const DecoderShape& s = weights.shape;
  const int64_t offset = from * s.kv_width + kv_head * s.head_padded * kLanes;
  return {kv_at(weights, block, positions, layer, 0, offset), s.kv_width * kLanes, kLanes, weights.type};
}

RightMatrix values_of(const PackedWeights& weights, const void* block, int64_t positions, int layer,
                      int kv_head, int from) {
  const DecoderShape& s = weights.shape;
  const int pair = weights.type == ComputeType::kFloat32 ? 1 : 2;
  const int64_t offset = from * s.kv_width + kv_head * s.head_padded * pair;
  return {kv_at(weights, block, positions, layer, 1, offset), kLanes * pair, s.kv_width, weights.type};
}

int64_t kv_block_bytes(const ModelConfig& config, ComputeType type, int32_t capacity) {
  const DecoderShape shape(config);
  return 2 * shape.layers * padded(capacity) * shape.kv_width * bytes_of(type);
}

float cap_scores(const DecoderShape& shape, int columns, float* scores) {
  if (shape.attention_cap == 0) return shape.score_scale;
  kernels().soft_cap(columns, shape.score_scale / shape.attention_cap, shape.attention_cap, scores);
  return 1.0f;
}

void hide_scores(int base, int window, int position, float* scores) {
  const int hidden = first_visible(window, position) - base;
  if (hidden > 0) std::fill_n(scores, hidden, -std::numeric_limits<float>::infinity());
}

void make_attention_tasks(const DecoderShape& shape, ForwardRows& rows) {
  constexpr int kTaskQueries = 96;
  rows.tasks.clear();
  for (size_t s = 0; s < rows.sequences.size(); ++s) {
    for (int begin = 0; begin < rows.sequences[s].rows; begin += kTaskQueries) {
      const int end = std::min(rows.sequences[s].rows, begin + kTaskQueries);
      for (int head = 0; head < shape.kv_heads; ++head)
        rows.tasks.push_back({static_cast<int>(s), head, begin, end});
    }
  }
}

void embed(const PackedWeights& weights, const ForwardRows& rows, int begin, int end, float* output) {
  const int64_t width = weights.shape.hidden_padded;
  const float scale = weights.shape.embedding_scale;
  const PackedMatrix& embedding = weights.embedding();
  for (int r = begin; r < end; ++r) {
    embedding.read_column(rows.token[r], output + r * width);
    if (scale != 1) kernels().scale(static_cast<int>(width), scale, output + r * width);
  }
}

namespace {

// Where the numbers of one slot lie in a layer of its block.
template <typename Element>
struct SlotView {
  Element *keys, *values;
};
template <typename Element>
SlotView<Element> slot_view(const DecoderShape& shape, int layer, const KvSlot& slot) {
  const int64_t plane = slot.positions * shape.kv_width, panel = slot.position / kLanes * kLanes;
  Element* keys = static_cast<Element*>(slot.block) + 2 * layer * plane;
  Element* values = keys + plane;
  if constexpr (sizeof(Element) == sizeof(float)) {
    return {keys + panel * shape.kv_width + slot.position % kLanes, values + slot.position * shape.kv_width};
  }
  return {keys + panel * shape.kv_width + slot.position % kLanes * 2,
          values + slot.position / 2 * 2 * shape.kv_width + slot.position % 2};
}

// Columns [begin, end) of a key and a value [kv_width].
void store_key_value(const PackedWeights& weights, int layer, const KvSlot& slot, int64_t begin, int64_t end,
                     const float* key, const float* value) {
  if (weights.type == ComputeType::kFloat32) {
    const SlotView<float> to = slot_view<float>(weights.shape, layer, slot);
    for (int64_t j = begin; j < end; ++j) to.keys[j * kLanes] = key[j];
    std::memcpy(to.values + begin, value + begin, sizeof(float) * static_cast<size_t>(end - begin));
    return;
  }
  const SlotView<uint16_t> to = slot_view<uint16_t>(weights.shape, layer, slot);
  for (int64_t j = begin; j < end; ++j) {
    to.keys[j / 2 * 2 * kLanes + j % 2] = float_to_brain(key[j]);
    to.values[2 * j] = float_to_brain(value[j]);
  }
}

}  // namespace

void load_key_value(const PackedWeights& weights, int layer, const KvSlot& slot, float* key, float* value) {
  const int64_t width = weights.shape.kv_width;
  if (weights.type == ComputeType::kFloat32) {
    const SlotView<float> from = slot_view<float>(weights.shape, layer, slot);
    for (int64_t j = 0; j < width; ++j) key[j] = from.keys[j * kLanes];
    std::memcpy(value, from.values, sizeof(float) * width);
    return;
  }
  const SlotView<uint16_t> from = slot_view<uint16_t>(weights.shape, layer, slot);
  for (int64_t j = 0; j < width; ++j) {
    key[j] = brain_to_float(from.keys[j / 2 * 2 * kLanes + j % 2]);
    value[j] = brain_to_float(from.values[2 * j]);
  }
}

void finish_heads(const PackedWeights& weights, int layer, const ForwardRows& rows, int row, Range kv_heads,
                  float* qkv, float* query, float* key) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const PackedLayer& w = weights.layers[layer];
  const int heads = kv_heads.end - kv_heads.begin;
  const int64_t first_query = int64_t{kv_heads.begin} * s.group * s.head_padded;
  const int64_t first_key = kv_heads.begin * s.head_padded, width = heads * s.head_padded;
  float *keys = qkv + s.query_width, *values = keys + s.kv_width;
  if (!w.qkv_bias.empty()) {
    const float* bias = w.qkv_bias.data();
    const auto add = [&](int64_t from, int64_t count) {
      k.add_bias(1, static_cast<int>(count), bias + from, qkv + from, s.qkv_width);
    };
    add(first_query, width * s.group);
    add(s.query_width + first_key, width);
    add(s.query_width + s.kv_width + first_key, width);
  }
  const float* cosine = w.rope->row(rows.position[row]);
  const float* sine = cosine + s.head_dim / 2;
  k.rotate_heads(heads * s.group, s.head_dim, qkv + first_query, w.q_norm.empty() ? nullptr : w.q_norm.data(),
                 s.epsilon, cosine, sine, query + first_query);
  k.rotate_heads(heads, s.head_dim, keys + first_key, w.k_norm.empty() ? nullptr : w.k_norm.data(), s.epsilon,
                 cosine, sine, key + first_key);
  store_key_value(weights, rows.cache_layer(layer), rows.slot[row], first_key, first_key + width, key,
                  values);
}

void attention_inputs(const PackedWeights& weights, int layer, const ForwardRows& rows, int begin, int end,
                      const LayerActivations& activations, ForwardScratch& scratch) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const PackedLayer& w = weights.layers[layer];
  float* normed = scratch.rows.reserve(kForwardRowBlock * s.hidden_padded + s.kv_width);
  float* key = normed + kForwardRowBlock * s.hidden_padded;
  for (int block = begin; block < end; block += kForwardRowBlock) {
    const int count = std::min(kForwardRowBlock, end - block);
    float* qkv = activations.qkv + block * s.qkv_width;
    k.rms_norm(count, s.hidden, activations.input + block * s.hidden_padded, s.hidden_padded,
               w.attention_norm.data(), s.epsilon, normed, s.hidden_padded);
    k.matmul(count, w.qkv.depth, w.qkv.columns, {normed, s.hidden_padded, 1}, w.qkv.right(), qkv, s.qkv_width,
             Write::kStore);
    for (int i = 0; i < count; ++i, qkv += s.qkv_width) {
      const int row = block + i;
      finish_heads(weights, layer, rows, row, {0, s.kv_heads}, qkv, activations.query + row * s.query_width,
                   key);
    }
  }
}

// Rows of one block of attention: the queries [begin, end) of a head, or all heads of the group when there is
// one query, as in decoding.
struct QueryBlock {
  int begin, end, head, rows;
  int64_t row_stride, out_stride;
};

// Softmax over the positions that the query at `position` sees. Scores of earlier ones become weights of 0,
// whatever they hold, so that a block of queries may compute more than each of them sees.
static Kernels::RowSoftmax attention_weights(const DecoderShape& shape, float* scores, int base, int window,
                                             int position, int columns) {
  const Kernels& k = kernels();
  const float scale = cap_scores(shape, columns, scores);
  hide_scores(base, window, position, scores);
  return k.softmax_row(scores, position + 1 - base, columns, scale);
}

static void attend_block(const PackedWeights& weights, int layer, const ForwardRows& rows,
                         const AttentionTask& task, const QueryBlock& block,
                         const LayerActivations& activations, float* scores, int64_t score_stride) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const Sequence& sequence = rows.sequences[task.sequence];
  const int cached = rows.cache_layer(layer);
  const int window = weights.layers[layer].window;
  const int limit = sequence.position + block.end;  // keys that the last query sees
  const int start = first_visible(window, sequence.position + block.begin), base = score_base(start);
  const int columns = static_cast<int>(padded(limit)) - base;
  const int64_t first = sequence.first_row + block.begin;
  const float* query = activations.query + first * s.query_width + block.head * s.head_padded;
  float* out = activations.attention + first * s.query_width + block.head * s.head_padded;
  for_each_visible(sequence, start, limit, [&](const ContextRun& run, int from, int column, int count) {
    // Whole panels: what a panel holds beyond `count` is overwritten by the next run or not looked at.
    k.matmul(block.rows, s.head_dim, static_cast<int>(padded(count)), {query, block.row_stride, 1},
             keys_of(weights, run.block, run.positions, cached, task.kv_head, from), scores + column,
             score_stride, Write::kStore);
  });
  float inverse_sum[kMaxQueryBlock];
  const bool decoding = block.end - block.begin == 1;
  for (int r = 0; r < block.rows; ++r) {
    const int position = decoding ? limit - 1 : sequence.position + block.begin + r;
    const auto [maximum, sum] =
        attention_weights(s, scores + r * score_stride, base, window, position, columns);
    inverse_sum[r] = 1.0f / sum;
    if (activations.softmax != nullptr) {
      const int64_t row = first + (decoding ? 0 : r);
      float* kept = activations.softmax + (row * s.heads + block.head + (decoding ? r : 0)) * 2;
      kept[0] = maximum;
      kept[1] = inverse_sum[r];
    }
  }
  Write write = Write::kStore;
  for_each_visible(sequence, start, limit, [&](const ContextRun& run, int from, int column, int count) {
    k.matmul(block.rows, count, static_cast<int>(s.head_padded), {scores + column, score_stride, 1},
             values_of(weights, run.block, run.positions, cached, task.kv_head, from), out, block.out_stride,
             write);
    write = Write::kContinue;
  });
  for (int r = 0; r < block.rows; ++r) {
    k.scale(static_cast<int>(s.head_padded), inverse_sum[r], out + r * block.out_stride);
  }
}

void attention(const PackedWeights& weights, int layer, const ForwardRows& rows, int begin, int end,
               const LayerActivations& activations, ForwardScratch& scratch) {
  const DecoderShape& s = weights.shape;
  for (int t = begin; t < end; ++t) {
    const AttentionTask& task = rows.tasks[t];
    const Sequence& sequence = rows.sequences[task.sequence];
    const int base = score_base(first_visible(weights.layers[layer].window, sequence.position + task.begin));
    const int64_t score_stride = padded(sequence.position + task.end) - base + kLanes;
    const int first_head = task.kv_head * s.group;
    if (task.end - task.begin == 1) {
      // One query: its heads are the rows, in portions that fit the block.
      float* scores = scratch.scores.reserve(std::min(s.group, kMaxQueryBlock) * score_stride);
      for (int head = 0; head < s.group; head += kMaxQueryBlock) {
        const QueryBlock block{task.begin,        task.end,
                               first_head + head, std::min(kMaxQueryBlock, s.group - head),
                               s.head_padded,     s.head_padded};
        attend_block(weights, layer, rows, task, block, activations, scores, score_stride);
      }
      continue;
    }
    const int step = query_block(score_stride, kForwardScoreFloats);
    float* scores = scratch.scores.reserve(step * score_stride);
    for (int query = task.begin; query < task.end; query += step) {
      for (int head = first_head; head < first_head + s.group; ++head) {
        const int last = std::min(task.end, query + step);
        const QueryBlock block{query, last, head, last - query, s.query_width, s.query_width};
        attend_block(weights, layer, rows, task, block, activations, scores, score_stride);
      }
    }
  }
}

// out = base + norm(x): rows of `width`; `normed` is scratch of x's shape, and `out` may be `base`.
static void add_normed(const DecoderShape& shape, int count, const float* x, const std::vector<float>& weight,
                       const float* base, float* normed, float* out) {
  const Kernels& k = kernels();
  const int64_t width = shape.hidden_padded;
  k.rms_norm(count, shape.hidden, x, width, weight.data(), shape.epsilon, normed, width);
  if (out != base) std::memcpy(out, base, sizeof(float) * count * width);
  for (int i = 0; i < count; ++i) {
    k.add_bias(1, static_cast<int>(width), normed + i * width, out + i * width, width);
  }
}

void attention_outputs(const PackedWeights& weights, int layer, int begin, int end,
                       const LayerActivations& activations, ForwardScratch& scratch) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  const PackedLayer& w = weights.layers[layer];
  const int64_t width = s.hidden_padded, gate_up_width = 2 * s.ffn_padded;
  float* normed = scratch.rows.reserve(kForwardRowBlock * (2 * width + gate_up_width + s.ffn_padded));
  float* own_gate_up = normed + kForwardRowBlock * width;
  float* activation = own_gate_up + kForwardRowBlock * gate_up_width;
  float* own_out = activation + kForwardRowBlock * s.ffn_padded;
  const auto gated = s.activation == Activation::kSilu ? k.swiglu : k.geglu;
  for (int block = begin; block < end; block += kForwardRowBlock) {
    const int count = std::min(kForwardRowBlock, end - block);
    const float* input = activations.input + block * width;
    float* middle = activations.middle + block * width;
    float* output = activations.output == nullptr ? nullptr : activations.output + block * width;
    float* gate_up =
        activations.gate_up != nullptr ? activations.gate_up + block * gate_up_width : own_gate_up;
    const LeftMatrix attended{activations.attention + block * s.query_width, s.query_width, 1};
    if (s.sandwich) {
      float* out = activations.attention_out != nullptr ? activations.attention_out + block * width : own_out;
      k.matmul(count, w.output.depth, w.output.columns, attended, w.output.right(), out, width,
               Write::kStore);
      add_normed(s, count, out, w.post_attention_norm, input, normed, middle);
    } else {
      k.matmul_add(count, w.output.depth, w.output.columns, attended, w.output.right(), input, middle, width);
    }
    k.rms_norm(count, s.hidden, middle, width, w.mlp_norm.data(), s.epsilon, normed, width);
    k.matmul(count, w.gate_up.depth, w.gate_up.columns, {normed, width, 1}, w.gate_up.right(), gate_up,
             gate_up_width, Write::kStore);
    if (output == nullptr && activations.mlp_out == nullptr) continue;
    gated(count, s.ffn, gate_up, gate_up_width, activation, s.ffn_padded);
    const LeftMatrix activated{activation, s.ffn_padded, 1};
    if (s.sandwich) {
      float* out = activations.mlp_out != nullptr ? activations.mlp_out + block * width : own_out;
      k.matmul(count, w.down.depth, w.down.columns, activated, w.down.right(), out, width, Write::kStore);
      if (output != nullptr) add_normed(s, count, out, w.post_mlp_norm, middle, normed, output);
    } else {
      k.matmul_add(count, w.down.depth, w.down.columns, activated, w.down.right(), middle, output, width);
    }
  }
}

void cap_logits(const DecoderShape& shape, int count, int vocabulary, float* logits, int64_t stride) {
  if (shape.logit_cap == 0) return;
  for (int i = 0; i < count; ++i) {
    kernels().soft_cap(vocabulary, 1.0f / shape.logit_cap, shape.logit_cap, logits + i * stride);
  }
}

void language_model_head(const PackedWeights& weights, int count, const float* input, int64_t stride,
                         int vocabulary, float* normed, float* logits, int64_t logits_stride) {
  const Kernels& k = kernels();
  const DecoderShape& s = weights.shape;
  k.rms_norm(count, s.hidden, input, stride, weights.final_norm.data(), s.epsilon, normed, s.hidden_padded);
  k.matmul(count, weights.head.depth, vocabulary, {normed, s.hidden_padded, 1}, weights.head.right(), logits,
           logits_stride, Write::kStore);
  cap_logits(s, count, vocabulary, logits, logits_stride);
}

Range part_of(int count, int parts, int index, int grain) {
  const int64_t grains = (count + grain - 1) / grain;
  const auto bound = [&](int i) {
    return static_cast<int>(std::min<int64_t>(count, grains * i / parts * grain));
  };
  return {bound(index), bound(index + 1)};
}

Range part_of_tasks(const ForwardRows& rows, int parts, int index) {
  const auto work = [&](const AttentionTask& task) {
    return int64_t{task.end - task.begin} * (rows.sequences[task.sequence].position + task.end) + 64;
  };
  int64_t total = 0;
  for (const AttentionTask& task : rows.tasks) total += work(task);
  Range range{0, 0};
  int64_t done = 0;
  const int count = static_cast<int>(rows.tasks.size());
  range.begin = range.end = count;
  for (int t = 0; t < count; ++t) {
    // A task belongs to the part in which its middle lies.
    const int64_t part = (2 * done + work(rows.tasks[t])) * parts / (2 * total);
    done += work(rows.tasks[t]);
    if (part >= index && range.begin == count) range.begin = t;
    if (part > index) {
      range.end = t;
      break;
    }
  }
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

}  // namespace stoker::cpu
