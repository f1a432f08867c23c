#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "text/tokenizer.h"

namespace stoker {

struct SchedulerOptions {
  int32_t max_batch = 64;       // sequences that are computed side by side
  int32_t prefill_chunk = 256;  // context tokens a step, over all sequences
  bool prefix_cache = true;
  bool recompute = false;  // of sequences in flight, when the weights change
};

// What one step computes, and where its results go.
struct StepPlan {
  std::vector<Sequence*> sequences;  // [chunks]
  std::vector<cpu::SequenceChunk> chunks;
  std::vector<int32_t> logit_rows;               // rows of the step whose next token is sampled
  std::vector<Sequence*> sampling;               // [logit_rows]
  std::vector<SampledId> sampled;                // [logit_rows], filled by the step
  std::vector<std::optional<Failure>> failures;  // [logit_rows], set instead where the logits are broken

  bool empty() const { return chunks.empty(); }
  void clear();
};

// Decides what each step computes and keeps the cache: a plain object between the loop and the kernels,
// without clock, thread or weights.
//
// Requests are admitted first come, first served, as the batch and the cache have room. A step takes one
// token of every sequence that decodes, and prefill chunks in order of admission within a budget of tokens. A
// sequence whose next block an earlier one is about to compute waits for it, so that a group computes its
// prompt once. When blocks run out, the last admitted sequence gives up its own and is computed again later:
// its draws are keyed by position, so its tokens are the same. The oldest is never preempted and always fits.
//
//   while (!scheduler.idle()) {
//     StepPlan& plan = scheduler.plan();
//     compute(plan);                       // logits and samples of all rows
//     scheduler.complete(plan, version);   // tokens go to the sinks; ended sequences are finished
//   }
class Scheduler {
 public:
  // `tokenizer` may be null. Both must outlive the object.
  Scheduler(const SchedulerOptions& options, KvCache& cache, const Tokenizer* tokenizer);

  // The sequence must stay where it is until `finished` is set.
  void submit(Sequence& sequence);
  // Ends the sequence before the next step.
  void cancel(Sequence& sequence);
  // Ends all sequences with a failure or an exception.
  void end_all(const std::optional<Failure>& failure, const std::exception_ptr& exception);

  StepPlan& plan();
  void complete(StepPlan& plan, int64_t version);

  // Other weights compute the next step: nothing cached is found any more. Sequences that have sampled keep
  // their blocks and are mixed, unless they are to be recomputed; the others start over. A context starts
  // over only once until it gives a token: one that takes longer than the time between two publications goes
  // on as mixed, so that it ends.
  void weights_changed();

  bool idle() const { return waiting_.empty() && running_.empty(); }
  // Filled except for busy_seconds.
  EngineStatistics statistics() const;

 private:
  void reap_cancelled();
  void admit();
  int32_t unallocated_blocks(const Sequence& sequence) const;
  void find_cached(Sequence& sequence);
  bool awaits_earlier(const Sequence& sequence, size_t index) const;
  bool provide_blocks(Sequence& sequence, int32_t positions);
  void preempt_last();
  void drop_blocks(Sequence& sequence);
  void add_chunk(Sequence& sequence, int32_t count);
  void share_full_blocks(Sequence& sequence);
  void accept(Sequence& sequence, const SampledId& sampled, int64_t version);
  void end(Sequence& sequence);
  void remove_ended();

  SchedulerOptions options_;
  KvCache& cache_;
  const Tokenizer* tokenizer_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in order of admission
  StepPlan plan_;
  int32_t rows_ = 0;                // tokens of the plan
  int64_t weights_generation_ = 0;  // counts weights_changed; what cached blocks are keyed by
  bool any_cancelled_ = false;
  EngineStatistics statistics_;
};

}  // namespace stoker
