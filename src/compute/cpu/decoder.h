#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "async/parallel.h"
#include "compute/compute_type.h"
#include "model/weights.h"

namespace stoker::cpu {

// Weights in the layout of the matrix-multiply kernels; made once per version, immutable, shared by sampler
// and trainer. Holds what the forward pass needs and nothing else.
class PackedWeights;
// `old`: weights of an earlier version that serve no more. When nobody else holds them, their memory is used
// again: fresh memory is cleared by the system first, which takes longer than packing.
std::shared_ptr<const PackedWeights> pack_weights(const Weights& weights, ComputeType type,
                                                  Parallel& parallel,
                                                  std::shared_ptr<const PackedWeights> old = nullptr);
int64_t version_of(const PackedWeights& weights);
const ModelConfig& config_of(const PackedWeights& weights);

// Storage of keys and values for `capacity` consecutive positions, all layers. A view; the owner is the
// engine's block pool or a training tape. The layout inside is the kernels' own (forward_pass.h): copy whole
// blocks or nothing.
struct KvBlock {
  void* data = nullptr;  // aligned to 4 bytes
  int32_t capacity = 0;
};
// Bytes that a block of `capacity` positions takes; capacities are rounded up to a multiple of 16.
int64_t kv_block_bytes(const ModelConfig& config, ComputeType type, int32_t capacity);

// The first `count` positions of a block.
struct KvRun {
  KvBlock block;
  int32_t count = 0;
};

// Tokens to append to one sequence: a prefill chunk, or one token of decode.
struct SequenceChunk {
  std::span<const int32_t> tokens;  // [n], n >= 1
  int32_t position = 0;             // position of tokens[0]
  // The whole context in order, ours included: counts sum to position + n. Keys and values of the n tokens
  // are written into the last n positions, whose blocks must not be shared with another sequence's writes.
  std::span<const KvRun> context;
};

// The forward pass of sampling. A row's result depends on its own tokens, context and weights only: not on
// the other chunks, nor on how a context is cut into chunks and runs, nor on the number of threads, nor on
// the instruction set.
class DecoderForward {
 public:
  // How threads share a pass: rows, the columns of the products, or what is faster; columns only in small
  // passes (column_pass.h). For tests and benchmarks.
  enum class Split { kAutomatic, kRows, kColumns };

  // `vocabulary_size` <= V: logits of ids from there on (rows without a token) are not computed.
  DecoderForward(std::shared_ptr<const PackedWeights> weights, int32_t vocabulary_size,
                 Split split = Split::kAutomatic);
  ~DecoderForward();

  // What it was made with.
  const std::shared_ptr<const PackedWeights>& weights() const { return weights_; }

  // Runs all chunks in one pass. `logit_rows` are indices into the concatenation of all chunks' tokens,
  // ascending; logits: [logit_rows, vocabulary_size].
  void run(std::span<const SequenceChunk> chunks, std::span<const int32_t> logit_rows, float* logits,
           Parallel& parallel);

 private:
  struct Workspace;
  std::shared_ptr<const PackedWeights> weights_;
  int32_t vocabulary_size_;
  Split split_;
  std::unique_ptr<Workspace> workspace_;
};

// log softmax(logits / temperature)[id] in float32, computed exactly as Learner does; also the entropy.
float log_probability(std::span<const float> logits, float temperature, int32_t id);

}  // namespace stoker::cpu
