#include "engine/scheduler.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace stoker {
namespace {

constexpr int32_t kBlock = KvCache::kBlockPositions;

int32_t blocks_for(int32_t positions) { return (positions + kBlock - 1) / kBlock; }

// The block of tokens that begins at `begin`.
std::span<const int32_t> block_tokens(const Sequence& sequence, int32_t begin) {
  return std::span<const int32_t>(sequence.tokens).subspan(static_cast<size_t>(begin), kBlock);
}

}  // namespace

void StepPlan::clear() {
  sequences.clear();
  chunks.clear();
  logit_rows.clear();
  sampling.clear();
}

Scheduler::Scheduler(const SchedulerOptions& options, KvCache& cache, const Tokenizer* tokenizer)
    : options_(options), cache_(cache), tokenizer_(tokenizer) {}

void Scheduler::submit(Sequence& sequence) { waiting_.push_back(&sequence); }

void Scheduler::cancel(Sequence& sequence) {
  sequence.cancel_requested = true;
  any_cancelled_ = true;
}

void Scheduler::end_all(const std::optional<Failure>& failure, const std::exception_ptr& exception) {
  const auto end_one = [&](Sequence* sequence) {
    sequence->failure = failure;
    sequence->exception = exception;
    end(*sequence);
  };
  std::for_each(running_.begin(), running_.end(), end_one);
  std::for_each(waiting_.begin(), waiting_.end(), end_one);
  running_.clear();
  waiting_.clear();
}

StepPlan& Scheduler::plan() {
  plan_.clear();
  rows_ = 0;
  reap_cancelled();
  admit();
  int32_t budget = options_.prefill_chunk;
  for (size_t i = 0; i < running_.size(); ++i) {  // preemption shortens running_ from its end
    Sequence& sequence = *running_[i];
    int32_t count = 1;
    if (!sequence.decoding) {
      if (budget == 0) continue;
      find_cached(sequence);
      if (awaits_earlier(sequence, i)) continue;
      count = std::min(sequence.uncomputed(), budget);
    }
    if (!provide_blocks(sequence, sequence.computed + count)) break;
    if (!sequence.decoding) budget -= count;
    add_chunk(sequence, count);
  }
  plan_.sampled.resize(plan_.sampling.size());
  plan_.failures.assign(plan_.sampling.size(), std::nullopt);
  return plan_;
}

void Scheduler::complete(StepPlan& plan, int64_t version) {
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    Sequence& sequence = *plan.sequences[i];
    const auto count = static_cast<int32_t>(plan.chunks[i].tokens.size());
    sequence.computed += count;
    if (!sequence.decoding) statistics_.prefill_tokens += count;
    share_full_blocks(sequence);
  }
  for (size_t row = 0; row < plan.sampling.size(); ++row) {
    Sequence& sequence = *plan.sampling[row];
    if (sequence.cancel_requested) continue;  // ended by the next plan
    if (plan.failures[row]) {
      sequence.failure = std::move(plan.failures[row]);
      end(sequence);
    } else {
      accept(sequence, plan.sampled[row], version);
    }
  }
  ++statistics_.decode_steps;
  remove_ended();
}

void Scheduler::weights_changed() {
  ++weights_generation_;
  cache_.forget_cached();
  for (Sequence* sequence : running_) {
    const bool keeps = sequence->decoding && !options_.recompute;
    if (keeps || sequence->restarted) {
      sequence->mixed = sequence->mixed || sequence->computed > 0;
    } else {
      sequence->restarted = sequence->computed > 0;
      drop_blocks(*sequence);
    }
  }
}

EngineStatistics Scheduler::statistics() const {
  EngineStatistics statistics = statistics_;
  statistics.waiting_requests = static_cast<int64_t>(waiting_.size());
  statistics.running_requests = static_cast<int64_t>(running_.size());
  statistics.cache_blocks_used = cache_.referenced();
  statistics.cache_blocks_total = cache_.total();
  return statistics;
}

void Scheduler::reap_cancelled() {
  if (!any_cancelled_) return;
  any_cancelled_ = false;
  const auto reap = [this](Sequence* sequence) {
    if (!sequence->cancel_requested) return false;
    sequence->cancelled = true;
    end(*sequence);
    return true;
  };
  std::erase_if(running_, reap);
  std::erase_if(waiting_, reap);
}

void Scheduler::admit() {
  if (waiting_.empty()) return;
  int32_t promised = static_cast<int32_t>(running_.size());  // each may soon want one block more
  for (const Sequence* sequence : running_) promised += unallocated_blocks(*sequence);
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < options_.max_batch) {
    Sequence& sequence = *waiting_.front();
    find_cached(sequence);
    const int32_t wanted = unallocated_blocks(sequence) + 1;
    if (!running_.empty() && cache_.available() < promised + wanted) {
      drop_blocks(sequence);
      return;
    }
    promised += wanted;
    waiting_.pop_front();
    running_.push_back(&sequence);
    if (!sequence.preempted) sequence.sink->started();
  }
}

// Blocks that its known tokens still need.
int32_t Scheduler::unallocated_blocks(const Sequence& sequence) const {
  return blocks_for(static_cast<int32_t>(sequence.tokens.size())) -
         static_cast<int32_t>(sequence.blocks.size());
}

// Takes the cached blocks that follow what is computed. The last token is always computed: its logits are
// wanted.
void Scheduler::find_cached(Sequence& sequence) {
  if (!options_.prefix_cache || sequence.mixed) return;
  if (sequence.computed != kBlock * sequence.shared_blocks) return;
  const int32_t most = (static_cast<int32_t>(sequence.tokens.size()) - 1) / kBlock;
  const int32_t found = cache_.match(weights_generation_, sequence.tokens, most, sequence.blocks);
  if (found == 0) return;
  sequence.shared_blocks += found;
  sequence.computed += found * kBlock;
  for (size_t i = sequence.runs.size(); i < sequence.blocks.size(); ++i) {
    sequence.runs.push_back({cache_.view(sequence.blocks[i]), kBlock});
  }
  if (!sequence.preempted) {
    sequence.completion.cached_tokens += found * kBlock;
    statistics_.cached_tokens += found * kBlock;
  }
}

// Whether a sequence admitted earlier is going to compute the block that this one needs next.
bool Scheduler::awaits_earlier(const Sequence& sequence, size_t index) const {
  const int32_t next = sequence.computed;
  if (!options_.prefix_cache || sequence.mixed || next != kBlock * sequence.shared_blocks) return false;
  if (next + kBlock >= static_cast<int32_t>(sequence.tokens.size())) return false;
  const std::span<const int32_t> wanted = block_tokens(sequence, next);
  for (size_t i = 0; i < index; ++i) {
    const Sequence& earlier = *running_[i];
    if (earlier.decoding || earlier.mixed || earlier.computed >= next + kBlock) continue;
    if (next + kBlock > static_cast<int32_t>(earlier.tokens.size())) continue;
    const std::span<const int32_t> block = block_tokens(earlier, next);
    if (std::equal(wanted.begin(), wanted.end(), block.begin()) &&
        std::equal(sequence.tokens.begin(), sequence.tokens.begin() + next, earlier.tokens.begin())) {
      return true;
    }
  }
  return false;
}

// Gives the sequence blocks for `positions` positions, at the cost of those admitted later. False: at its
// own.
bool Scheduler::provide_blocks(Sequence& sequence, int32_t positions) {
  while (static_cast<int32_t>(sequence.blocks.size()) * kBlock < positions) {
    const BlockId block = cache_.allocate();
    if (block != kNoBlock) {
      sequence.blocks.push_back(block);
      sequence.runs.push_back({cache_.view(block), 0});
      continue;
    }
    if (running_.size() == 1) throw internal_error("A sequence that was admitted does not fit the KV cache.");
    const bool own = running_.back() == &sequence;
    preempt_last();
    if (own) return false;
  }
  return true;
}

void Scheduler::preempt_last() {
  Sequence& sequence = *running_.back();
  running_.pop_back();
  sequence.preempted = true;
  drop_blocks(sequence);
  waiting_.push_front(&sequence);
  ++statistics_.preemptions;
}

// Back to a sequence of which nothing is computed.
void Scheduler::drop_blocks(Sequence& sequence) {
  cache_.release(sequence.blocks);
  sequence.runs.clear();
  sequence.computed = 0;
  sequence.shared_blocks = 0;
  sequence.mixed = false;
  sequence.decoding = false;
  if (!sequence.preempted) {
    statistics_.cached_tokens -= sequence.completion.cached_tokens;
    sequence.completion.cached_tokens = 0;
  }
}

void Scheduler::add_chunk(Sequence& sequence, int32_t count) {
  const int32_t end = sequence.computed + count;
  for (int32_t i = sequence.computed / kBlock; i * kBlock < end; ++i) {
    sequence.runs[static_cast<size_t>(i)].count = std::min(kBlock, end - i * kBlock);
  }
  plan_.sequences.push_back(&sequence);
  plan_.chunks.push_back(
      {.tokens = std::span<const int32_t>(sequence.tokens)
                     .subspan(static_cast<size_t>(sequence.computed), static_cast<size_t>(count)),
       .position = sequence.computed,
       .context = std::span<const cpu::KvRun>(sequence.runs).first(static_cast<size_t>(blocks_for(end)))});
  rows_ += count;
  if (end == static_cast<int32_t>(sequence.tokens.size())) {
    plan_.logit_rows.push_back(rows_ - 1);
    plan_.sampling.push_back(&sequence);
  }
}

// Offers blocks that have become full to other sequences; those of a mixed one are its own.
void Scheduler::share_full_blocks(Sequence& sequence) {
  if (!options_.prefix_cache || sequence.mixed) return;
  for (; (sequence.shared_blocks + 1) * kBlock <= sequence.computed; ++sequence.shared_blocks) {
    const auto index = static_cast<size_t>(sequence.shared_blocks);
    const BlockId parent = index == 0 ? kNoBlock : sequence.blocks[index - 1];
    const BlockId block =
        cache_.insert(weights_generation_, parent, block_tokens(sequence, sequence.shared_blocks * kBlock),
                      sequence.blocks[index]);
    sequence.blocks[index] = block;
    sequence.runs[index].block = cache_.view(block);
  }
}

void Scheduler::accept(Sequence& sequence, const SampledId& sampled, int64_t version) {
  sequence.decoding = true;
  sequence.restarted = false;
  sequence.tokens.push_back(sampled.id);
  Completion& completion = sequence.completion;
  ++completion.sampled_tokens;
  ++statistics_.sampled_tokens;
  const std::vector<int32_t>& stop_tokens = sequence.stop.tokens;
  if (std::find(stop_tokens.begin(), stop_tokens.end(), sampled.id) != stop_tokens.end()) {
    completion.stop_reason = StopReason::kStopToken;
  } else if (tokenizer_ != nullptr && sequence.text.append(tokenizer_->token_bytes(sampled.id))) {
    completion.stop_reason = StopReason::kStopString;
  } else if (completion.sampled_tokens == sequence.stop.max_tokens ||
             static_cast<int32_t>(sequence.tokens.size()) >= sequence.length_limit) {
    completion.stop_reason = StopReason::kLength;
  }
  try {
    sequence.sink->accept({sampled.id, sampled.log_probability, version, sequence.mixed,
                           sampled.drawn_log_probability, sampled.top});
  } catch (...) {
    sequence.exception = std::current_exception();
  }
  if (completion.stop_reason != StopReason::kNone || sequence.exception) {
    completion.text = sequence.text.text();
    end(sequence);
  }
}

void Scheduler::end(Sequence& sequence) {
  cache_.release(sequence.blocks);
  sequence.ended = true;
  sequence.finished.set();
}

void Scheduler::remove_ended() {
  std::erase_if(running_, [](const Sequence* sequence) { return sequence->ended; });
}

}  // namespace stoker
