#include "compute/cpu/memory_use.h"

#include <algorithm>

#include "compute/cpu/packed_weights.h"

namespace stoker::cpu {
namespace {

int64_t layer_elements(const DecoderShape& s) {
  return s.hidden_padded * (s.qkv_width + s.query_width + 3 * s.ffn_padded);
}
int64_t head_elements(const DecoderShape& s) { return s.hidden_padded * s.vocab_padded; }

}  // namespace

int64_t packed_weight_bytes(const ModelConfig& config, ComputeType type) {
  const DecoderShape s(config);
  const int64_t vocabulary = config.tie_word_embeddings ? 1 : 2;
  return bytes_of(type) * (s.layers * layer_elements(s) + vocabulary * head_elements(s));
}

int64_t backward_weight_bytes(const ModelConfig& config, ComputeType type) {
  const DecoderShape s(config);
  return bytes_of(type) * (s.layers * layer_elements(s) + head_elements(s));
}

int64_t training_bytes(const ModelConfig& config, ComputeType type, Recompute recompute, int32_t vocabulary,
                       int64_t tokens, int threads) {
  constexpr int64_t kFloat = sizeof(float);
  // Rows of logits that are held at a time: by a thread in the forward pass, and by all in the backward pass.
  constexpr int64_t kForwardLogits = 48, kBackwardLogits = 96, kBackwardLogitFloats = int64_t{1} << 20;
  const DecoderShape s(config);
  // What training_pass.cc holds of a token: of each layer the stream behind it; and of each, or of one,
  // Q, K and V, rotated queries, attention, its maxima and sums; and the stream between its halves, gate and
  // up, and what is before the norms behind them.
  const int64_t attention_layers = recompute == Recompute::kNone ? s.layers : 1;
  const int64_t mlp_layers = recompute == Recompute::kLayer ? 1 : s.layers;
  const int64_t kept = s.layers * s.hidden_padded +
                       attention_layers * (s.qkv_width + 2 * s.query_width + 2 * s.heads) +
                       mlp_layers * ((s.sandwich ? 3 : 1) * s.hidden_padded + 2 * s.ffn_padded);
  // Of one layer, in backward_pass.h.
  const int64_t gradients = 7 * s.hidden_padded + s.ffn_padded + s.query_width + s.qkv_width + s.heads;
  // Positions are rounded up to 16 for each segment.
  const int64_t positions = tokens + tokens / 4 + kLanes;
  const int64_t cache = positions * s.kv_width * (2 * attention_layers * bytes_of(type) + 4 * kFloat);
  const int64_t logit_rows =
      std::max(kBackwardLogits, kBackwardLogitFloats / vocabulary) + threads * kForwardLogits;
  const int64_t head = std::min(2 * tokens + kBackwardLogits, logit_rows) * padded(vocabulary);
  // Activations, cache, gradients and logits, each rounded up to whole pages (float_buffer.cc).
  constexpr int64_t kRounding = 4 * (int64_t{2} << 20);
  return kRounding + tokens * kFloat * (kept + gradients + 2 * s.hidden_padded) + cache + kFloat * head;
}

}  // namespace stoker::cpu
