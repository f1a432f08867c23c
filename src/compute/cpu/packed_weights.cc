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

// The sources stacked, row-major with padded rows and columns, zeros between.
struct Stacked {
  FloatBuffer buffer;
  int64_t rows = 0, columns = 0;
};

Stacked stack(std::initializer_list<Source> sources) {
  Stacked result;
  for (const Source& source : sources) {
    result.rows += source.padded_rows();
    result.columns = source.padded_columns();
  }
  float* out = result.buffer.zeros(result.rows * result.columns);
  for (const Source& source : sources) {
    for (int r = 0; r < source.rows; ++r) {
      const int64_t row = int64_t{r} / source.row_group * padded(source.row_group) + r % source.row_group;
      for (int c = 0; c < source.columns; c += source.column_group) {
        std::memcpy(out + row * result.columns + c / source.column_group * padded(source.column_group),
                    source.data + int64_t{r} * source.columns + c, sizeof(float) * source.column_group);
      }
    }
    out += source.padded_rows() * result.columns;
  }
  return result;
}

// Panels over the rows of `matrix`: y = x W^T.
void pack_forward(const Stacked& matrix, PackedMatrix& packed) {
  const int64_t depth = matrix.columns;
  packed.depth = static_cast<int>(depth);
  packed.columns = static_cast<int>(matrix.rows);
  float* out = packed.buffer.reserve(matrix.rows * depth);
  for (int64_t panel = 0; panel < matrix.rows; panel += kLanes, out += depth * kLanes) {
    const float* in = matrix.buffer.data() + panel * depth;
    for (int64_t k = 0; k < depth; ++k) {
      for (int j = 0; j < kLanes; ++j) out[k * kLanes + j] = in[j * depth + k];
    }
  }
}

// Panels over the columns of `matrix`: dx = dy W.
void pack_backward(const Stacked& matrix, PackedMatrix& packed) {
  const int64_t depth = matrix.rows;
  packed.depth = static_cast<int>(depth);
  packed.columns = static_cast<int>(matrix.columns);
  float* out = packed.buffer.reserve(depth * matrix.columns);
  for (int64_t panel = 0; panel < matrix.columns; panel += kLanes) {
    for (int64_t k = 0; k < depth; ++k, out += kLanes) {
      std::memcpy(out, matrix.buffer.data() + k * matrix.columns + panel, sizeof(float) * kLanes);
    }
  }
}

std::vector<float> padded_vector(std::span<const float> values, int group) {
  std::vector<float> result(values.size() / group * padded(group), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) result[i / group * padded(group) + i % group] = values[i];
  return result;
}

struct LayerMatrices {
  Stacked qkv, output, gate_up, down;
};

Stacked stack_qkv(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  const auto heads = [&](int tensor, int rows) {
    return Source{weights.tensor(tensor).data(), rows, c.hidden_size, c.head_dim, c.hidden_size};
  };
  return stack({heads(t.q, c.query_size()), heads(t.k, c.key_value_size()), heads(t.v, c.key_value_size())});
}
Stacked stack_output(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  return stack({{weights.tensor(t.output).data(), c.hidden_size, c.query_size(), c.hidden_size, c.head_dim}});
}
Stacked stack_gate_up(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  return stack({plain(weights.tensor(t.gate), c.intermediate_size, c.hidden_size),
                plain(weights.tensor(t.up), c.intermediate_size, c.hidden_size)});
}
Stacked stack_down(const Weights& weights, const LayerTensors& t) {
  const ModelConfig& c = weights.config();
  return stack({plain(weights.tensor(t.down), c.hidden_size, c.intermediate_size)});
}
Stacked stack_head(const Weights& weights, const DecoderTensors& tensors) {
  const ModelConfig& c = weights.config();
  return stack({plain(weights.tensor(tensors.head), c.vocab_size, c.hidden_size)});
}

void pack_layer(const Weights& weights, const LayerTensors& t, PackedLayer& layer) {
  const ModelConfig& c = weights.config();
  layer.attention_norm = padded_vector(weights.tensor(t.attention_norm), c.hidden_size);
  layer.mlp_norm = padded_vector(weights.tensor(t.mlp_norm), c.hidden_size);
  if (t.q_norm >= 0) {
    layer.q_norm = padded_vector(weights.tensor(t.q_norm), c.head_dim);
    layer.k_norm = padded_vector(weights.tensor(t.k_norm), c.head_dim);
  }
  for (const int tensor : {t.q_bias, t.k_bias, t.v_bias}) {
    if (tensor < 0) continue;
    const std::vector<float> bias = padded_vector(weights.tensor(tensor), c.head_dim);
    layer.qkv_bias.insert(layer.qkv_bias.end(), bias.begin(), bias.end());
  }
  pack_forward(stack_qkv(weights, t), layer.qkv);
  pack_forward(stack_output(weights, t), layer.output);
  pack_forward(stack_gate_up(weights, t), layer.gate_up);
  pack_forward(stack_down(weights, t), layer.down);
}

}  // namespace

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
      score_scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)))),
      epsilon(c.rms_norm_eps) {}

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
    t.q_bias = t.k_bias = t.v_bias = t.q_norm = t.k_norm = -1;
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
    t.mlp_norm = find(prefix + "post_attention_layernorm.weight");
    t.gate = find(prefix + "mlp.gate_proj.weight");
    t.up = find(prefix + "mlp.up_proj.weight");
    t.down = find(prefix + "mlp.down_proj.weight");
    layers.push_back(t);
  }
}

std::shared_ptr<const RopeTable> rope_table(const ModelConfig& config) {
  using Key = std::tuple<float, int32_t, int32_t>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const RopeTable>> tables;
  const std::lock_guard lock(mutex);
  const Key key{config.rope_theta, config.head_dim, config.max_position_embeddings};
  if (std::shared_ptr<const RopeTable> table = tables[key].lock()) return table;
  const int half = config.head_dim / 2;
  auto table = std::make_shared<RopeTable>();
  table->cosine.resize(static_cast<size_t>(config.max_position_embeddings) * half);
  table->sine.resize(table->cosine.size());
  for (int i = 0; i < half; ++i) {
    const double frequency = std::pow(static_cast<double>(config.rope_theta), -2.0 * i / config.head_dim);
    for (int position = 0; position < config.max_position_embeddings; ++position) {
      table->cosine[static_cast<size_t>(position) * half + i] =
          static_cast<float>(std::cos(position * frequency));
      table->sine[static_cast<size_t>(position) * half + i] =
          static_cast<float>(std::sin(position * frequency));
    }
  }
  tables[key] = table;
  return table;
}

std::shared_ptr<const PackedWeights> pack_weights(const Weights& weights, Parallel& parallel) {
  const ModelConfig& config = weights.config();
  const DecoderTensors tensors(weights.manifest(), config);
  auto packed = std::make_shared<PackedWeights>(config, weights.version());
  packed->rope = rope_table(config);
  packed->layers.resize(config.num_hidden_layers);
  parallel.for_each(config.num_hidden_layers + 2, [&](int i) {
    if (i < config.num_hidden_layers) {
      pack_layer(weights, tensors.layers[i], packed->layers[i]);
    } else if (i == config.num_hidden_layers) {
      packed->embedding =
          stack({plain(weights.tensor(tensors.embedding), config.vocab_size, config.hidden_size)}).buffer;
      packed->final_norm = padded_vector(weights.tensor(tensors.final_norm), config.hidden_size);
    } else {
      pack_forward(stack_head(weights, tensors), packed->head);
    }
  });
  return packed;
}

void pack_backward_weights(const Weights& weights, Parallel& parallel, BackwardWeights& packed) {
  const DecoderTensors tensors(weights.manifest(), weights.config());
  const int layers = weights.config().num_hidden_layers;
  packed.layers.resize(layers);
  parallel.for_each(layers + 1, [&](int i) {
    if (i == layers) {
      pack_backward(stack_head(weights, tensors), packed.head);
      return;
    }
    pack_backward(stack_qkv(weights, tensors.layers[i]), packed.layers[i].qkv);
    pack_backward(stack_output(weights, tensors.layers[i]), packed.layers[i].output);
    pack_backward(stack_gate_up(weights, tensors.layers[i]), packed.layers[i].gate_up);
    pack_backward(stack_down(weights, tensors.layers[i]), packed.layers[i].down);
  });
}

int64_t version_of(const PackedWeights& weights) { return weights.version; }
const ModelConfig& config_of(const PackedWeights& weights) { return weights.config; }

}  // namespace stoker::cpu
