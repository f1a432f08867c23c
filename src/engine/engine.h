#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/executor.h"
#include "async/task.h"
#include "base/random.h"
#include "engine/sampling.h"
#include "model/weights.h"
#include "trajectory/trajectory.h"

namespace stoker {

struct StopConditions {
  int32_t max_tokens = 0;            // at least 1
  std::vector<int32_t> tokens;       // sampling one of them ends the span; it belongs to the span
  std::vector<std::string> strings;  // the span ends with the token that completes one
};

struct GenerateRequest {
  std::vector<int32_t> tokens;  // the whole context; never empty
  SamplingParameters sampling;
  StopConditions stop;
  StreamKey stream;  // the draw of the i-th sampled token is random_uniform(stream, i + first_position)
  uint64_t first_position =
      0;  // tokens of this turn that an earlier, interrupted request has sampled already
  std::shared_ptr<const TokenMask> mask = nullptr;  // null: every id may follow
};

// Log-probabilities in both conventions. log_probability is log softmax(logits / temperature)[id] of the
// model's own logits over the whole vocabulary, whatever penalties, biases, masks, top-k, top-p and min-p
// made of them; under greedy decoding that of temperature 1. It is the Learner's. drawn_log_probability is
// that of the distribution from which the id was drawn, all of these applied; under greedy decoding 0.
struct SampledToken {
  int32_t id = 0;
  float log_probability = 0;
  int64_t version = 0;
  bool mixed = false;  // parts of the context's cache were computed by other versions
  float drawn_log_probability = 0;
  // [top_log_probabilities], the likeliest first, as log_probability is.
  std::vector<TokenLogProbability> top = {};
};

// Takes tokens as they are accepted. Called on the loop thread, in order, never after generate has returned.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // The request has its place in the engine's batch: what it waited for is over. At most once, before any
  // token.
  virtual void started() {}
  virtual void accept(const SampledToken& token) = 0;
};

struct Completion {
  StopReason stop_reason = StopReason::kNone;
  int32_t sampled_tokens = 0;
  int32_t cached_tokens = 0;  // of the context, found in the prefix cache
  std::string text;           // decoded text before the stop string or stop token; empty without a tokenizer
};

// What an engine can do; a run that needs what is missing is refused at start.
struct EngineCapabilities {
  bool keyed_random_streams = false;  // draws follow GenerateRequest::stream
  bool per_token_versions = false;
  bool scoring = false;
  bool prefix_cache = false;
  bool exact_log_probabilities = false;  // bit-identical to the Learner's
};

// Numbers for metrics; counters grow from the engine's start.
struct EngineStatistics {
  int64_t waiting_requests = 0;
  int64_t running_requests = 0;
  int64_t sampled_tokens = 0;
  int64_t prefill_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t decode_steps = 0;
  int64_t preemptions = 0;  // sequences that gave up their cache to older ones and compute it again
  int64_t cache_blocks_used = 0;
  int64_t cache_blocks_total = 0;
  double busy_seconds = 0;  // computing, by the Executor clock; of several, the mean of their processes

  // Of an engine that stands on several; 0 of a single one.
  int64_t lost_engines = 0;          // that ended or hung, and were replaced
  int64_t failed_over_requests = 0;  // that went on at another engine
  // By outcome; see PublicationOutcome.
  int64_t publications_committed = 0;
  int64_t publications_aborted = 0;
  int64_t publications_partly_committed = 0;
  int64_t publications_unknown = 0;
};

// Generates tokens under versioned weights. One object serves any number of concurrent requests of one loop.
//
//   Completion completion = co_await engine.generate(request, sink);
//
// Cancelling the awaiting task ends the request within one decode step, frees its cache, and throws
// Cancelled; the sink keeps what was accepted. A request that cannot be served (context too long, engine
// lost) is a Failure.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual EngineCapabilities capabilities() const = 0;
  virtual Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) = 0;
  // log_probability of each token given those before it, at `temperature`: [tokens - 1].
  virtual Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) = 0;
  // Prepares the weights, then swaps them in between two decode steps. Sequences in flight keep their cache,
  // and their later tokens are `mixed`, unless the engine is set to recompute it. A context that is not
  // computed yet may start over once. Returns when the new version serves. A version below the current one is
  // refused.
  virtual Task<Result<Done>> publish(WeightsPtr weights) = 0;
  virtual int64_t version() const = 0;
  virtual EngineStatistics statistics() const = 0;
};

}  // namespace stoker
