#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/compute_pool.h"
#include "async/event.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "compute/cpu/decoder.h"
#include "engine/kv_cache.h"
#include "engine/replica_engine.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "text/tokenizer.h"

namespace stoker {

struct NativeEngineOptions {
  int32_t max_batch = 64;               // sequences computed side by side; further requests wait
  int64_t max_cache_bytes = 256 << 20;  // keys and values; taken from the system as they are used
  int32_t prefill_chunk = 256;          // context tokens a step: bounds how long decoding waits for a prompt
  bool prefix_cache = true;
  // What new weights do to sequences in flight: keep their cache, so that later tokens are `mixed`, or
  // compute it anew, at the cost of their contexts' prefill.
  bool recompute_cache = false;
  ComputeType compute_type = ComputeType::kFloat32;  // the Learner's, for log-probabilities of the same bits
  int32_t vocabulary_size = 0;  // ids from there on have no token and are never sampled; 0: all the model has
  TokenizerPtr tokenizer;       // for stop strings and Completion::text; may be null
};

// Generation on the compute pool: continuous batching over a paged KV cache. While there are requests, one
// task runs step after step; each step is one job on the pool, and weights change between two.
// Log-probabilities are bit-identical to the Learner's on the same weights and in the same compute type, and
// tokens and log-probabilities do not depend on what else is in the batch, on prefix sharing, chunking,
// preemption or threads.
//
//   ComputePool pool(2);
//   NativeEngine engine(executor, pool, weights, {.vocabulary_size = tokenizer->vocabulary_size()});
//   Result<Completion> completion = co_await engine.generate(std::move(request), sink);
//
// Failures: limit.context_length (the context leaves no room for a token, by the model or by the cache),
// limit.max_tokens, infrastructure.logits_not_finite, infrastructure.shut_down, infrastructure.stale_version,
// infrastructure.weights_mismatch, infrastructure.not_prepared. What the kernels throw comes out of every
// request in flight and of later ones. Must not be destroyed while one of its tasks is awaited. Loop thread
// only.
class NativeEngine final : public ReplicaEngine {
 public:
  // Packs the weights before it returns. `executor` and `pool` must outlive the object. Throws Error(kInput)
  // when the options do not fit the model or a cache of max_cache_bytes holds no block.
  NativeEngine(Executor& executor, ComputePool& pool, const WeightsPtr& weights, NativeEngineOptions options);
  ~NativeEngine() override;

  EngineCapabilities capabilities() const override;
  Task<Result<Completion>> generate(GenerateRequest request, TokenSink& sink) override;
  Task<Result<std::vector<float>>> score(std::vector<int32_t> tokens, float temperature) override;
  Task<Result<Done>> publish(WeightsPtr weights) override;
  int64_t version() const override { return version_; }
  EngineStatistics statistics() const override;

  Task<Result<Done>> prepare(WeightsPtr weights) override;
  Task<Result<Done>> commit(int64_t version) override;
  bool lost() const override { return closed_; }
  void when_lost(std::function<void()> function) override { when_lost_ = std::move(function); }
  // As close(), which must follow.
  void abandon(const std::string& reason) override;
  std::string lost_reason() const override { return lost_reason_; }
  bool computes_here() const override { return true; }
  bool takes_masks() const override { return true; }

  // Ends every request with infrastructure.shut_down, refuses later ones, and waits for the step in flight.
  Task<> close() override;

 private:
  using ForwardPtr = std::shared_ptr<cpu::DecoderForward>;

  ForwardPtr make_forward(const Weights& weights, Parallel& parallel,
                          std::shared_ptr<const cpu::PackedWeights> old) const;
  void check_tokens(const std::vector<int32_t>& tokens) const;
  std::optional<Failure> refuse(const GenerateRequest& request) const;
  void prepare(GenerateRequest request, TokenSink& sink, Sequence& sequence) const;
  void start_stepping();
  Task<> step_until_idle();
  Task<> step(StepPlan& plan);
  void compute(StepPlan& plan, Parallel& parallel);
  void serve_published();
  void shut(const std::string& reason);
  Task<Result<Done>> make_ready(const WeightsPtr& weights);
  Task<Result<Done>> swap_in(int64_t version);

  Executor& executor_;
  ComputePool& pool_;
  NativeEngineOptions options_;
  ModelConfig config_;
  int32_t length_limit_ = 0;  // tokens of one sequence: what the model and the whole cache can hold

  ForwardPtr forward_;
  int64_t version_ = 0;
  ForwardPtr prepared_forward_;  // what commit() publishes; null: nothing
  int64_t prepared_version_ = 0;
  ForwardPtr published_forward_;                        // serves from the next step on; null: none
  std::shared_ptr<const cpu::PackedWeights> outdated_;  // whose memory the next published ones take
  int64_t published_version_ = 0;
  Semaphore publishing_{1, "publish"};
  Event served_{"publish"};

  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Sampler> samplers_;  // [threads]
  std::vector<float> logits_;      // [rows, vocabulary]
  Scope scope_;
  bool stepping_ = false;   // step_until_idle runs
  bool computing_ = false;  // a step is on the pool
  bool closed_ = false;
  std::function<void()> when_lost_;
  std::string lost_reason_;
  std::exception_ptr broken_;  // what a step threw
  double busy_seconds_ = 0;
};

}  // namespace stoker
