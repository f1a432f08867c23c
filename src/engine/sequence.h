#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "async/event.h"
#include "compute/cpu/decoder.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/stop_text.h"

namespace stoker {

// One request in flight: what was asked, what has come of it, and the part of its context that the KV cache
// holds. Lives with the request; Scheduler moves it.
struct Sequence {
  SamplingParameters sampling;
  StopConditions stop;
  StreamKey stream;
  uint64_t first_position = 0;
  std::shared_ptr<const TokenMask> mask;
  TokenSink* sink = nullptr;
  int32_t length_limit = 0;  // tokens in all; reaching it ends the sequence

  std::vector<int32_t> tokens;  // the context, then what was sampled
  int32_t context_tokens = 0;

  // Positions [0, computed) are in the blocks. The first `shared_blocks` blocks are in the prefix cache or
  // were.
  int32_t computed = 0;
  int32_t shared_blocks = 0;
  std::vector<BlockId> blocks;
  std::vector<cpu::KvRun> runs;  // the same blocks as the forward pass sees them
  bool mixed = false;            // computed by more than one version
  bool decoding = false;         // a token was sampled since the context was computed
  bool restarted = false;        // other weights made it start over since its last token
  bool preempted = false;        // has given up its blocks at least once

  StopText text;
  Completion completion;
  std::optional<Failure> failure;
  std::exception_ptr exception;
  bool cancel_requested = false;
  bool cancelled = false;  // ended by cancel_requested
  bool ended = false;
  Event finished{"engine"};

  int32_t uncomputed() const { return static_cast<int32_t>(tokens.size()) - computed; }
  int32_t sampled() const { return static_cast<int32_t>(tokens.size()) - context_tokens; }
  // In this turn, by an interrupted request too.
  int32_t sampled_in_turn() const {
    return sampled() +
           static_cast<int32_t>(std::min<uint64_t>(first_position, static_cast<uint64_t>(context_tokens)));
  }
};

}  // namespace stoker
