#pragma once

#include <cstdint>
#include <memory>
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
  float score_scale;    // 1 / sqrt(head_dim)
  float epsilon;
};

// A matrix [columns, depth] (a linear layer: [out, in]) as right operand of Kernels::matmul: panels of 16
// columns, [columns / 16][depth][16].
struct PackedMatrix {
  int depth = 0;
  int columns = 0;  // padded
  FloatBuffer buffer;

  RightMatrix right() const { return {buffer.data(), int64_t{depth} * kLanes, kLanes}; }
};

// Cosines and sines of the rotary angles, [max positions][head_dim / 2] each; angles in double precision.
// Shared by all versions of a model.
struct RopeTable {
  std::vector<float> cosine, sine;
};
std::shared_ptr<const RopeTable> rope_table(const ModelConfig& config);

struct PackedLayer {
  std::vector<float> attention_norm, mlp_norm;  // [hidden_padded]
  PackedMatrix qkv, output, gate_up, down;
  std::vector<float> qkv_bias;        // [qkv_width], empty without bias
  std::vector<float> q_norm, k_norm;  // [head_padded], empty without QK-norm
};

class PackedWeights {
 public:
  PackedWeights(const ModelConfig& config, int64_t version)
      : config(config), shape(config), version(version) {}

  ModelConfig config;
  DecoderShape shape;
  int64_t version;
  FloatBuffer embedding;  // [vocab, hidden_padded]
  std::vector<PackedLayer> layers;
  std::vector<float> final_norm;  // [hidden_padded]
  PackedMatrix head;
  std::shared_ptr<const RopeTable> rope;
};

// The weights as right operands of the products that carry gradients back to activations: dX = dY W.
struct BackwardLayer {
  PackedMatrix qkv, output, gate_up, down;
};
struct BackwardWeights {
  std::vector<BackwardLayer> layers;
  PackedMatrix head;
};
void pack_backward_weights(const Weights& weights, Parallel& parallel, BackwardWeights& packed);

// Indices into weight_manifest of the tensors of each layer; -1: absent.
struct LayerTensors {
  int attention_norm, q, k, v, q_bias = -1, k_bias = -1, v_bias = -1, q_norm = -1, k_norm = -1, output;
  int mlp_norm, gate, up, down;
};
struct DecoderTensors {
  explicit DecoderTensors(const std::vector<TensorInfo>& manifest, const ModelConfig& config);
  int embedding, final_norm, head;  // head == embedding when tied
  std::vector<LayerTensors> layers;
};

}  // namespace stoker::cpu
