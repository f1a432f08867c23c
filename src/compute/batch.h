#pragma once

#include <cstdint>
#include <vector>

namespace stoker {

// A run of tokens in a forest: its context is the tokens of its ancestors, root first. A prompt shared by a
// group is one segment with G children, computed once, forward and backward.
struct Segment {
  std::vector<int32_t> tokens;
  int32_t parent = -1;  // index of an earlier segment; -1 for a root
};

// What a Learner computes on. `N` predictions, each of K candidate ids, asked of hidden states by address, so
// that only trained positions pay for the LM head, and the last token of a shared prompt can predict G first
// tokens.
struct Batch {
  std::vector<Segment> segments;

  int32_t candidates = 1;          // K: 1 for policy gradients, more for distillation
  std::vector<int32_t> segment;    // [N] which segment's hidden state predicts
  std::vector<int32_t> offset;     // [N] its token within the segment; predicts what follows that token
  std::vector<int32_t> target;     // [N, K] candidate ids
  std::vector<float> temperature;  // [N] log-probabilities are of logits / temperature; > 0

  int64_t prediction_count() const { return static_cast<int64_t>(segment.size()); }
  int64_t token_count() const;  // over all segments: what a forward pass costs
};

// Throws Error(kInternal) naming the first broken rule: parents before children, offsets inside, equal
// lengths.
void validate(const Batch& batch, int32_t vocabulary_size);

}  // namespace stoker
