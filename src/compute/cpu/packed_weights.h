#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "compute/cpu/decoder.h"
#include "compute/cpu/float_buffer.h"
#include "compute/cpu/kernels.h"
#include "model/weights.h"

namespace stoker::cpu {

// The padded sizes in which the kernels see an architecture. Each head is padded to a multiple of 16, so that
// heads, rows and panels never share a vector.
struct DecoderShape {
  explicit DecoderShape(const ModelConfig& config);

  int layers, heads, kv_heads, group;  // group: query heads of one KV head
  int hidden, head_dim, ffn, vocab;
  int64_t hidden_padded, head_padded, ffn_padded, vocab_padded;
  int64_t query_width;  // heads * head_padded
  int64_t kv_width;     // kv_heads * head_padded
  int64_t qkv_width;    // query_width + 2 kv_width
  float score_scale;    // 1 / sqrt(query_pre_attn_scalar or head_dim)
  float epsilon;
  Activation activation;
  bool sandwich;          // norms behind attention and MLP too
  float attention_cap;    // 0: none
  float logit_cap;        // 0: none
  float embedding_scale;  // 1: none
};

// A matrix [columns, depth] (a linear layer: [out, in]) as right operand of Kernels::matmul: panels of 16
// columns, [columns / 16][depth][16] in float32, [columns / 16][depth / 2][16][2] in bfloat16. In bfloat16
// forward products round their left operand, those that carry gradients back do not.
struct PackedMatrix {
  int depth = 0;    // padded
  int columns = 0;  // padded
  ComputeType type = ComputeType::kFloat32;
  bool rounds_left = false;  // what it is multiplied with is rounded to bfloat16 too
  FloatBuffer buffer;        // of bytes_of(type) an element

  RightMatrix right() const { return right_from(0); }
  // The columns from `column` on, a multiple of 16.
  RightMatrix right_from(int column) const;
  // Column `index` [depth], widened: the row of an embedding.
  void read_column(int index, float* out) const;
};

// Cosines and sines of the rotary angles of each position, times a factor; angles in double precision.
// Computed in blocks of positions when first asked for, from any thread. Shared by all versions of a model.
class RopeTable {
 public:
  // `frequencies` [head_dim / 2]: radians a position.
  RopeTable(std::vector<double> frequencies, float factor, int32_t positions);

  // [head_dim / 2] cosines, then as many sines.
  const float* row(int32_t position) const {
    const float* block = blocks_[position / kBlock].load(std::memory_order_acquire);
    if (block == nullptr) block = make_block(position / kBlock);
    return block + int64_t{position % kBlock} * 2 * static_cast<int64_t>(frequencies_.size());
  }

 private:
  static constexpr int32_t kBlock = 256;
  const float* make_block(int32_t index) const;

  std::vector<double> frequencies_;
  float factor_;
  std::unique_ptr<std::atomic<const float*>[]> blocks_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const float[]>> memory_;
};
// The tables of layers that see everything and of sliding layers; one and the same where they agree.
struct RopeTables {
  std::shared_ptr<const RopeTable> global, local;
};
RopeTables rope_tables(const ModelConfig& config);

struct PackedLayer {
  std::vector<float> attention_norm, mlp_norm;            // [hidden_padded]
  std::vector<float> post_attention_norm, post_mlp_norm;  // [hidden_padded], empty without
  PackedMatrix qkv, output, gate_up, down;
  std::vector<float> qkv_bias;        // [qkv_width], empty without bias
  std::vector<float> q_norm, k_norm;  // [head_padded], empty without QK-norm
  int window = 0;                     // tokens that the layer sees; 0: all
  std::shared_ptr<const RopeTable> rope;
};

class PackedWeights {
 public:
  PackedWeights(const ModelConfig& config, int64_t version, ComputeType type)
      : config(config), shape(config), version(version), type(type) {}

  ModelConfig config;
  DecoderShape shape;
  int64_t version;
  ComputeType type;
  std::vector<PackedLayer> layers;
  std::vector<float> final_norm;  // [hidden_padded]
  PackedMatrix head;
  PackedMatrix untied_embedding;  // empty when the head is the embedding

  // A column [hidden_padded] an id.
  const PackedMatrix& embedding() const { return untied_embedding.depth > 0 ? untied_embedding : head; }
};

// The weights as right operands of the products that carry gradients back to activations: dX = dY W.
struct BackwardLayer {
  PackedMatrix qkv, output, gate_up, down;
};
struct BackwardWeights {
  std::vector<BackwardLayer> layers;
  PackedMatrix head;
};
void pack_backward_weights(const Weights& weights, ComputeType type, Parallel& parallel,
                           BackwardWeights& packed);

// Indices into weight_manifest of the tensors of each layer; -1: absent.
struct LayerTensors {
  int attention_norm, q, k, v, q_bias = -1, k_bias = -1, v_bias = -1, q_norm = -1, k_norm = -1, output;
  int mlp_norm, gate, up, down, post_attention_norm = -1, post_mlp_norm = -1;
};
struct DecoderTensors {
  explicit DecoderTensors(const std::vector<TensorInfo>& manifest, const ModelConfig& config);
  int embedding, final_norm, head;  // head == embedding when tied
  std::vector<LayerTensors> layers;
};

}  // namespace stoker::cpu
