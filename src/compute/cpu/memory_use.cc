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

int64_t training_bytes(const ModelConfig& config, ComputeType type, int32_t vocabulary, int64_t tokens,
                       int threads) {
  constexpr int64_t kFloat = sizeof(float);
  // Rows of logits that are held at a time: by a thread in the forward pass, and by all in the backward pass.
  constexpr int64_t kForwardLogits = 48, kBackwardLogits = 96, kBackwardLogitFloats = int64_t{1} << 20;
  const DecoderShape s(config);
  // What training_pass.cc keeps of a token and layer: Q, K and V, rotated queries, attention, its maxima and
  // sums, the stream after both halves, gate and up; and before the norms behind them.
  const int64_t kept = s.qkv_width + 2 * s.query_width + 2 * s.heads +
                       (s.sandwich ? 4 : 2) * s.hidden_padded + 2 * s.ffn_padded;
  // Of one layer, in backward_pass.h.
  const int64_t gradients = 7 * s.hidden_padded + s.ffn_padded + s.query_width + s.qkv_width + s.heads;
  // Positions are rounded up to 16 for each segment.
  const int64_t positions = tokens + tokens / 4 + kLanes;
  const int64_t cache = positions * s.kv_width * (2 * s.layers * bytes_of(type) + 4 * kFloat);
  const int64_t logit_rows =
      std::max(kBackwardLogits, kBackwardLogitFloats / vocabulary) + threads * kForwardLogits;
  const int64_t head = std::min(2 * tokens + kBackwardLogits, logit_rows) * padded(vocabulary);
  // Activations, cache, gradients and logits, each rounded up to whole pages (float_buffer.cc).
  constexpr int64_t kRounding = 4 * (int64_t{2} << 20);
  return kRounding + tokens * kFloat * (s.layers * kept + gradients + 2 * s.hidden_padded) + cache +
         kFloat * head;
}

}  // namespace stoker::cpu
