#include "compute/cpu/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include <fmt/core.h>
#include "base/error.h"
#include "model/float_types.h"
#include "model/rope.h"

namespace stoker::cpu {
namespace {

// Rows of a matrix [rows, columns] whose rows and columns may be grouped into heads that are padded: row r of
// group g lands at g * padded(row_group) + r % row_group, columns likewise.
struct Source {
  const float* data;
  int rows, columns;
  int row_group, column_group;

  int64_t padded_rows() const { return int64_t{rows} / row_group * padded(row_group); }
  int64_t padded_columns() const { return int64_t{columns} / column_group * padded(column_group); }
};

Source plain(std::span<const float> data, int rows, int columns) {
  return {data.data(), rows, columns, rows, columns};
}

// A source with padded rows and columns and zeros between: a view of it when nothing has to be padded.
class Padded {
 public:
  explicit Padded(const Source& source) : rows_(source.padded_rows()), columns_(source.padded_columns()) {
    if (rows_ == source.rows && columns_ == source.columns) {
      data_ = source.data;
      return;
    }
    data_ = buffer_.zeros(rows_ * columns_);
    for (int r = 0; r < source.rows; ++r) {
      const int64_t row = int64_t{r} / source.row_group * padded(source.row_group) + r % source.row_group;
      for (int c = 0; c < source.columns; c += source.column_group) {
        std::memcpy(buffer_.data() + row * columns_ + c / source.column_group * padded(source.column_group),
                    source.data + int64_t{r} * source.columns + c, sizeof(float) * source.column_group);
      }
    }
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  const float* row(int64_t index) const { return data_ + index * columns_; }

 private:
  int64_t rows_, columns_;
  FloatBuffer buffer_;
  const float* data_ = nullptr;
};

// The sources below each other are one matrix W.
using Sources = std::vector<Source>;

int64_t total_rows(const Sources& sources) {
  int64_t rows = 0;
  for (const Source& source : sources) rows += source.padded_rows();
  return rows;
}

// Makes room in `packed` for depth x columns elements.
void reserve(int64_t depth, int64_t columns, ComputeType type, PackedMatrix& packed) {
  packed.depth = static_cast<int>(depth);
  packed.columns = static_cast<int>(columns);
  packed.type = type;
  packed.rounds_left = false;
  packed.buffer.reserve(depth * columns * bytes_of(type) / bytes_of(ComputeType::kFloat32));
}

// 16 rows [16, depth] as a panel.
void pack_panel(const float* in, int64_t depth, float* out) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int j = 0; j < kLanes; ++j) out[k * kLanes + j] = in[j * depth + k];
  }
}
void pack_panel(const float* in, int64_t depth, uint16_t* out) {
  for (int64_t k = 0; k < depth; k += 2) {
    for (int j = 0; j < kLanes; ++j) {
      out[k * kLanes + 2 * j] = float_to_brain(in[j * depth + k]);
      out[k * kLanes + 2 * j + 1] = float_to_brain(in[j * depth + k + 1]);
    }
  }
}

// Panels over the rows of W, the first at panel `first_panel` of `packed`: y = x W^T.
template <typename Element>
void pack_forward_panels(const Source& source, int64_t first_panel, PackedMatrix& packed) {
  const Padded matrix(source);
  const int64_t depth = packed.depth;
  auto* out = reinterpret_cast<Element*>(packed.buffer.data()) + first_panel * depth * kLanes;
  for (int64_t row = 0; row < matrix.rows(); row += kLanes, out += depth * kLanes) {
    pack_panel(matrix.row(row), depth, out);
  }
}

void pack_forward(const Sources& sources, ComputeType type, PackedMatrix& packed) {
  reserve(sources.front().padded_columns(), total_rows(sources), type, packed);
  packed.rounds_left = type == ComputeType::kBfloat16;
  int64_t panel = 0;
  for (const Source& source : sources) {
    if (type == ComputeType::kFloat32) {
      pack_forward_panels<float>(source, panel, packed);
    } else {
      pack_forward_panels<uint16_t>(source, panel, packed);
    }
    panel += source.padded_rows() / kLanes;
  }
}

// A matrix of the size of the vocabulary, all threads at once.
void pack_vocabulary(const Source& source, ComputeType type, Parallel& parallel, PackedMatrix& packed) {
  constexpr int kSlice = 1024;
  reserve(source.padded_columns(), source.padded_rows(), type, packed);
  packed.rounds_left = type == ComputeType::kBfloat16;
  parallel.for_each((source.rows + kSlice - 1) / kSlice, [&](int i) {
    Source slice = source;
    slice.data += int64_t{i} * kSlice * source.columns;
    slice.rows = slice.row_group = std::min(kSlice, source.rows - i * kSlice);
    if (type == ComputeType::kFloat32) {
      pack_forward_panels<float>(slice, int64_t{i} * kSlice / kLanes, packed);
    } else {
      pack_forward_panels<uint16_t>(slice, int64_t{i} * kSlice / kLanes, packed);
    }
  });
}

// Sixteen elements of row `r`, which is one of a pair, of a panel over the columns of W.
void pack_lanes(const float* in, int64_t r, float* panel) {
  std::memcpy(panel + r * kLanes, in, sizeof(float) * kLanes);
}
void pack_lanes(const float* in, int64_t r, uint16_t* panel) {
  uint16_t* out = panel + r / 2 * 2 * kLanes + r % 2;
  for (int j = 0; j < kLanes; ++j) out[2 * j] = float_to_brain(in[j]);
}

// Panels over the columns of W: dx = dy W.
template <typename Element>
void pack_backward_panels(const Sources& sources, PackedMatrix& packed) {
  const int64_t columns = packed.columns, depth = packed.depth;
  auto* out = reinterpret_cast<Element*>(packed.buffer.data());
  int64_t row = 0;
  for (const Source& source : sources) {
    const Padded matrix(source);
    for (int64_t r = 0; r < matrix.rows(); ++r, ++row) {
      for (int64_t panel = 0; panel < columns; panel += kLanes) {
        pack_lanes(matrix.row(r) + panel, row, out + panel * depth);
      }
    }
  }
}

void pack_backward(const Sources& sources, ComputeType type, PackedMatrix& packed) {
  reserve(total_rows(sources), sources.front().padded_columns(), type, packed);
  if (type == ComputeType::kFloat32) {
    pack_backward_panels<float>(sources, packed);
  } else {
    pack_backward_panels<uint16_t>(sources, packed);
  }
}

// A norm's or bias's parameters in the compute type.
std::vector<float> rounded(std::span<const float> values, ComputeType type) {
  std::vector<float> result(values.begin(), values.end());
  if (type == ComputeType::kBfloat16) {
    for (float& value : result) value = brain_to_float(float_to_brain(value));
  }
  return result;
}

std::vector<float> padded_vector(std::span<const float> values, int group) {
  std::vector<float> result(values.size() / group * padded(group), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) result[i / group * padded(group) + i % group] = values[i];
  return result;
}

// The factors of an RMSNorm, padded with zeros.
std::vector<float> norm_factors(const ModelConfig& config, ComputeType type, std::span<const float> weight,
                                int group) {
  std::vector<float> factors = rounded(weight, type);
  if (config.norm_plus_one) {
    for (float& factor : factors) factor += 1.0f;
  }
  return padded_vector(factors, group);
}

Sources qkv_of(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  const auto heads = [&](int tensor, int rows) {
    return Source{weights.tensor(tensor).data(), rows, c.hidden_size, c.head_dim, c.hidden_size};
  };
  return {heads(t.q, c.query_size()), heads(t.k, c.key_value_size()), heads(t.v, c.key_value_size())};
}
Sources output_of(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  return {{weights.tensor(t.output).data(), c.hidden_size, c.query_size(), c.hidden_size, c.head_dim}};
}
Sources gate_up_of(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  return {plain(weights.tensor(t.gate), c.intermediate_size, c.hidden_size),
          plain(weights.tensor(t.up), c.intermediate_size, c.hidden_size)};
}
Sources down_of(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  return {plain(weights.tensor(t.down), c.hidden_size, c.intermediate_size)};
}
Source vocabulary_of(const Weights& weights, int tensor) {
  const ModelConfig& c = weights.config();
  return plain(weights.tensor(tensor), c.vocab_size, c.hidden_size);
}

void pack_layer(const Weights& weights, ComputeType type, const LayerTensors& t, PackedLayer& layer) {
  const ModelConfig& c = weights.config();
  const auto norm = [&](int tensor, int width) {
    return tensor < 0 ? std::vector<float>() : norm_factors(c, type, weights.tensor(tensor), width);
  };
  layer.attention_norm = norm(t.attention_norm, c.hidden_size);
  layer.mlp_norm = norm(t.mlp_norm, c.hidden_size);
  layer.post_attention_norm = norm(t.post_attention_norm, c.hidden_size);
  layer.post_mlp_norm = norm(t.post_mlp_norm, c.hidden_size);
  layer.q_norm = norm(t.q_norm, c.head_dim);
  layer.k_norm = norm(t.k_norm, c.head_dim);
  layer.qkv_bias.clear();
  for (const int tensor : {t.q_bias, t.k_bias, t.v_bias}) {
    if (tensor < 0) continue;
    const std::vector<float> bias = padded_vector(rounded(weights.tensor(tensor), type), c.head_dim);
    layer.qkv_bias.insert(layer.qkv_bias.end(), bias.begin(), bias.end());
  }
  pack_forward(qkv_of(weights, t), type, layer.qkv);
  pack_forward(output_of(weights, t), type, layer.output);
  pack_forward(gate_up_of(weights, t), type, layer.gate_up);
  pack_forward(down_of(weights, t), type, layer.down);
}

}  // namespace

RightMatrix PackedMatrix::right_from(int column) const {
  const auto* data = reinterpret_cast<const std::byte*>(buffer.data());
  return {data + int64_t{column} * depth * bytes_of(type), int64_t{depth} * kLanes, kLanes, type,
          rounds_left};
}

void PackedMatrix::read_column(int index, float* out) const {
  const int64_t panel = int64_t{index} / kLanes * depth * kLanes;
  const int lane = index % kLanes;
  if (type == ComputeType::kFloat32) {
    const float* in = buffer.data() + panel + lane;
    for (int64_t k = 0; k < depth; ++k) out[k] = in[k * kLanes];
    return;
  }
  const auto* in = reinterpret_cast<const uint16_t*>(buffer.data()) + panel + 2 * lane;
  for (int64_t k = 0; k < depth; k += 2) {
    out[k] = brain_to_float(in[k * kLanes]);
    out[k + 1] = brain_to_float(in[k * kLanes + 1]);
  }
}

DecoderShape::DecoderShape(const ModelConfig& c)
    : layers(c.num_hidden_layers),
      heads(c.num_attention_heads),
      kv_heads(c.num_key_value_heads),
      group(c.num_attention_heads / c.num_key_value_heads),
      hidden(c.hidden_size),
      head_dim(c.head_dim),
      ffn(c.intermediate_size),
      vocab(c.vocab_size),
      hidden_padded(padded(c.hidden_size)),
      head_padded(padded(c.head_dim)),
      ffn_padded(padded(c.intermediate_size)),
      vocab_padded(padded(c.vocab_size)),
      query_width(heads * head_padded),
      kv_width(kv_heads * head_padded),
      qkv_width(query_width + 2 * kv_width),
      score_scale(static_cast<float>(1.0 / std::sqrt(c.query_pre_attn_scalar > 0
                                                         ? static_cast<double>(c.query_pre_attn_scalar)
                                                         : static_cast<double>(c.head_dim)))),
      epsilon(c.rms_norm_eps),
      activation(c.activation),
      sandwich(c.sandwich_norm),
      attention_cap(c.attn_logit_softcapping),
      logit_cap(c.final_logit_softcapping),
      embedding_scale(c.scale_embedding ? static_cast<float>(std::sqrt(static_cast<double>(c.hidden_size)))
                                        : 1.0f) {}

DecoderTensors::DecoderTensors(const std::vector<TensorInfo>& manifest, const ModelConfig& config) {
  std::map<std::string, int> index;
  for (size_t i = 0; i < manifest.size(); ++i) index[manifest[i].name] = static_cast<int>(i);
  const auto find = [&](const std::string& name) {
    const auto it = index.find(name);
    if (it == index.end()) throw internal_error(fmt::format("The weight manifest has no tensor '{}'.", name));
    return it->second;
  };
  embedding = find("model.embed_tokens.weight");
  final_norm = find("model.norm.weight");
  head = config.tie_word_embeddings ? embedding : find("lm_head.weight");
  for (int l = 0; l < config.num_hidden_layers; ++l) {
    const std::string prefix = fmt::format("model.layers.{}.", l);
    const auto attention = [&](const char* name) { return find(prefix + "self_attn." + name); };
    LayerTensors t{};
    t.q_bias = t.k_bias = t.v_bias = t.q_norm = t.k_norm = t.post_attention_norm = t.post_mlp_norm = -1;
    t.attention_norm = find(prefix + "input_layernorm.weight");
    t.q = attention("q_proj.weight");
    t.k = attention("k_proj.weight");
    t.v = attention("v_proj.weight");
    t.output = attention("o_proj.weight");
    if (config.attention_bias) {
      t.q_bias = attention("q_proj.bias");
      t.k_bias = attention("k_proj.bias");
      t.v_bias = attention("v_proj.bias");
    }
    if (config.qk_norm) {
      t.q_norm = attention("q_norm.weight");
      t.k_norm = attention("k_norm.weight");
    }
    if (config.sandwich_norm) {
      t.post_attention_norm = find(prefix + "post_attention_layernorm.weight");
      t.mlp_norm = find(prefix + "pre_feedforward_layernorm.weight");
      t.post_mlp_norm = find(prefix + "post_feedforward_layernorm.weight");
    } else {
      t.mlp_norm = find(prefix + "post_attention_layernorm.weight");
    }
    t.gate = find(prefix + "mlp.gate_proj.weight");
    t.up = find(prefix + "mlp.up_proj.weight");
    t.down = find(prefix + "mlp.down_proj.weight");
    layers.push_back(t);
  }
}

RopeTable::RopeTable(std::vector<double> frequencies, float factor, int32_t positions)
    : frequencies_(std::move(frequencies)),
      factor_(factor),
      blocks_(std::make_unique<std::atomic<const float*>[]>(positions / kBlock + 1)) {}

const float* RopeTable::make_block(int32_t index) const {
  const std::lock_guard lock(mutex_);
  if (const float* block = blocks_[index].load(std::memory_order_acquire)) return block;
  const size_t half = frequencies_.size();
  auto rows = std::make_unique<float[]>(kBlock * 2 * half);
  for (int32_t i = 0; i < kBlock; ++i) {
    float* row = rows.get() + static_cast<size_t>(i) * 2 * half;
    for (size_t k = 0; k < half; ++k) {
      const double angle = (static_cast<double>(index) * kBlock + i) * frequencies_[k];
      row[k] = static_cast<float>(std::cos(angle)) * factor_;
      row[half + k] = static_cast<float>(std::sin(angle)) * factor_;
    }
  }
  memory_.push_back(std::move(rows));
  blocks_[index].store(memory_.back().get(), std::memory_order_release);
  return memory_.back().get();
}

static std::shared_ptr<const RopeTable> rope_table(const std::vector<double>& frequencies, float factor,
                                                   int32_t positions) {
  using Key = std::tuple<std::vector<double>, float, int32_t>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const RopeTable>> tables;
  const std::lock_guard lock(mutex);
  const Key key{frequencies, factor, positions};
  if (std::shared_ptr<const RopeTable> table = tables[key].lock()) return table;
  auto table = std::make_shared<const RopeTable>(frequencies, factor, positions);
  tables[key] = table;
  return table;
}

RopeTables rope_tables(const ModelConfig& config) {
  const int32_t positions = config.max_position_embeddings;
  RopeTables tables;
  tables.global = rope_table(rope_frequencies(config), config.rope_scaling.attention_factor, positions);
  tables.local = config.rope_local_theta == 0 ? tables.global
                                              : rope_table(rope_local_frequencies(config), 1.0f, positions);
  return tables;
}

// The buffers of `old` when nobody else holds it and it is of the same kind; else none.
static std::shared_ptr<PackedWeights> reusable(std::shared_ptr<const PackedWeights> old,
                                               const Weights& weights, ComputeType type) {
  if (old == nullptr || old.use_count() > 1 || old->config != weights.config() || old->type != type) {
    return std::make_shared<PackedWeights>(weights.config(), weights.version(), type);
  }
  // Made by pack_weights as an object that is not const.
  auto packed = std::const_pointer_cast<PackedWeights>(std::move(old));
  packed->version = weights.version();
  return packed;
}

std::shared_ptr<const PackedWeights> pack_weights(const Weights& weights, ComputeType type,
                                                  Parallel& parallel,
                                                  std::shared_ptr<const PackedWeights> old) {
  const ModelConfig& config = weights.config();
  const DecoderTensors tensors(weights.manifest(), config);
  auto packed = reusable(std::move(old), weights, type);
  const RopeTables ropes = rope_tables(config);
  packed->layers.resize(config.num_hidden_layers);
  for (int l = 0; l < config.num_hidden_layers; ++l) {
    packed->layers[l].window = config.window(l);
    packed->layers[l].rope = config.window(l) > 0 ? ropes.local : ropes.global;
  }
  parallel.for_each(config.num_hidden_layers,
                    [&](int i) { pack_layer(weights, type, tensors.layers[i], packed->layers[i]); });
  packed->final_norm = norm_factors(config, type, weights.tensor(tensors.final_norm), config.hidden_size);
  pack_vocabulary(vocabulary_of(weights, tensors.head), type, parallel, packed->head);
  if (tensors.embedding != tensors.head) {
    pack_vocabulary(vocabulary_of(weights, tensors.embedding), type, parallel, packed->untied_embedding);
  }
  return packed;
}

void pack_backward_weights(const Weights& weights, ComputeType type, Parallel& parallel,
                           BackwardWeights& packed) {
  const DecoderTensors tensors(weights.manifest(), weights.config());
  const int layers = weights.config().num_hidden_layers;
  packed.layers.resize(layers);
  parallel.for_each(layers + 1, [&](int i) {
    if (i == layers) {
      pack_backward({vocabulary_of(weights, tensors.head)}, type, packed.head);
      return;
    }
    pack_backward(qkv_of(weights, tensors.layers[i]), type, packed.layers[i].qkv);
    pack_backward(output_of(weights, tensors.layers[i]), type, packed.layers[i].output);
    pack_backward(gate_up_of(weights, tensors.layers[i]), type, packed.layers[i].gate_up);
    pack_backward(down_of(weights, tensors.layers[i]), type, packed.layers[i].down);
  });
}

int64_t version_of(const PackedWeights& weights) { return weights.version; }
const ModelConfig& config_of(const PackedWeights& weights) { return weights.config; }

}  // namespace stoker::cpu
