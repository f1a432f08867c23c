#include "engine/native_engine.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "async/cancellation.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/request_check.h"

namespace stoker {
namespace {

Failure shut_down() { return {FailureClass::kInfrastructure, "shut_down", "The engine was shut down."}; }

Failure context_length(size_t tokens, int32_t limit) {
  return {
      FailureClass::kLimit, "context_length",
      fmt::format("The context holds {} tokens; model and cache have room for {} in all, the sampled ones "
                  "included.",
                  tokens, limit)};
}

// Tokens whose logits are held at a time, so that those of a large vocabulary stay within some 100 MB.
int32_t most_scored_rows(size_t vocabulary) {
  constexpr size_t kLogits = size_t{1} << 24, kLeastRows = 96;
  return static_cast<int32_t>(std::max(kLeastRows, kLogits / vocabulary));
}

void validate(const NativeEngineOptions& options, const ModelConfig& config) {
  const auto at_least_one = [](const char* name, int64_t value) {
    if (value < 1)
      throw input_error(fmt::format("The engine's {} is {}; it must be at least 1.", name, value));
  };
  at_least_one("max_batch", options.max_batch);
  at_least_one("prefill_chunk", options.prefill_chunk);
  if (options.vocabulary_size < 0 || options.vocabulary_size > config.vocab_size) {
    throw input_error(
        fmt::format("The tokenizer has {} tokens, the model only {}; use the tokenizer of this model.",
                    options.vocabulary_size, config.vocab_size));
  }
  if (options.max_cache_bytes < KvCache::block_bytes(config, options.compute_type)) {
    throw input_error(
        fmt::format("The engine's cache of {} bytes is smaller than one block of this model ({} bytes); "
                    "raise max_cache_bytes.",
                    options.max_cache_bytes, KvCache::block_bytes(config, options.compute_type)));
  }
}

}  // namespace

NativeEngine::NativeEngine(Executor& executor, ComputePool& pool, const WeightsPtr& weights,
                           NativeEngineOptions options)
    : executor_(executor),
      pool_(pool),
      options_(std::move(options)),
      config_(weights->config()),
      version_(weights->version()),
      samplers_(static_cast<size_t>(pool.threads())),
      scope_(executor) {
  validate(options_, config_);
  if (options_.vocabulary_size == 0) options_.vocabulary_size = config_.vocab_size;
  constexpr int64_t kMostBlocks = 1 << 27;
  const int64_t blocks =
      std::min(options_.max_cache_bytes / KvCache::block_bytes(config_, options_.compute_type), kMostBlocks);
  cache_ = std::make_unique<KvCache>(config_, static_cast<int32_t>(blocks), options_.compute_type);
  length_limit_ = static_cast<int32_t>(
      std::min<int64_t>(config_.max_position_embeddings, blocks * KvCache::kBlockPositions));
  const SchedulerOptions scheduling{.max_batch = options_.max_batch,
                                    .prefill_chunk = options_.prefill_chunk,
                                    .prefix_cache = options_.prefix_cache,
                                    .recompute = options_.recompute_cache};
  scheduler_ = std::make_unique<Scheduler>(scheduling, *cache_, options_.tokenizer.get());
  forward_ =
      pool_.run_blocking([&](Parallel& parallel) { return make_forward(*weights, parallel, nullptr); });
}

NativeEngine::~NativeEngine() = default;

NativeEngine::ForwardPtr NativeEngine::make_forward(const Weights& weights, Parallel& parallel,
                                                    std::shared_ptr<const cpu::PackedWeights> old) const {
  return std::make_shared<cpu::DecoderForward>(
      cpu::pack_weights(weights, options_.compute_type, parallel, std::move(old)), options_.vocabulary_size);
}

EngineCapabilities NativeEngine::capabilities() const {
  return {.keyed_random_streams = true,
          .per_token_versions = true,
          .scoring = true,
          .prefix_cache = options_.prefix_cache,
          .exact_log_probabilities = true};
}

EngineStatistics NativeEngine::statistics() const {
  EngineStatistics statistics = scheduler_->statistics();
  statistics.busy_seconds = busy_seconds_;
  return statistics;
}

void NativeEngine::check_tokens(const std::vector<int32_t>& tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config_.vocab_size) {
      throw input_error(fmt::format("Token {} of the context has id {}; the model's ids are 0 to {}.", i,
                                    tokens[i], config_.vocab_size - 1));
    }
  }
}

std::optional<Failure> NativeEngine::refuse(const GenerateRequest& request) const {
  if (std::optional<Failure> failure = check_request(request)) return failure;
  check_tokens(request.tokens);
  const auto check_id = [&](const char* what, int32_t id) {
    if (id >= 0 && id < options_.vocabulary_size) return;
    throw input_error(fmt::format("{} names token {}; the ids that can be drawn are 0 to {}.", what, id,
                                  options_.vocabulary_size - 1));
  };
  for (const LogitBias& bias : request.sampling.logit_bias) check_id("A logit bias", bias.id);
  for (const int32_t id : request.sampling.forbidden_tokens) check_id("The list of forbidden tokens", id);
  for (const std::string& string : request.stop.strings) {
    if (string.empty()) throw input_error("A stop string is empty; leave it out.");
    if (options_.tokenizer == nullptr) {
      throw input_error(
          fmt::format("The stop string '{}' needs an engine that was made with a tokenizer.", string));
    }
  }
  if (request.tokens.size() >= static_cast<size_t>(length_limit_)) {
    return context_length(request.tokens.size(), length_limit_);
  }
  return std::nullopt;
}

void NativeEngine::prepare(GenerateRequest request, TokenSink& sink, Sequence& sequence) const {
  const auto context = static_cast<int32_t>(request.tokens.size());
  if (options_.tokenizer != nullptr) {
    const auto earlier =
        static_cast<size_t>(std::min<uint64_t>(request.first_position, request.tokens.size()));
    const std::span<const int32_t> tail = std::span<const int32_t>(request.tokens).last(earlier);
    sequence.text = StopText(std::move(request.stop.strings), options_.tokenizer->decode(tail));
  }
  sequence.sampling = std::move(request.sampling);
  sequence.mask = std::move(request.mask);
  sequence.stop = std::move(request.stop);
  sequence.stream = request.stream;
  sequence.first_position = request.first_position;
  sequence.sink = &sink;
  sequence.length_limit = length_limit_;
  sequence.context_tokens = context;
  sequence.tokens = std::move(request.tokens);
  sequence.tokens.reserve(
      static_cast<size_t>(std::min<int64_t>(int64_t{context} + sequence.stop.max_tokens, length_limit_)));
}

Task<Result<Completion>> NativeEngine::generate(GenerateRequest request, TokenSink& sink) {
  if (std::optional<Failure> failure = refuse(request)) co_return *std::move(failure);
  const CancellationToken cancellation = co_await current_cancellation();
  cancellation.throw_if_requested();
  if (broken_) std::rethrow_exception(broken_);
  if (closed_) co_return shut_down();

  Sequence sequence;
  prepare(std::move(request), sink, sequence);
  scheduler_->submit(sequence);
  start_stepping();
  {
    CancellationCallback on_cancel(cancellation, [&](CancelReason) { scheduler_->cancel(sequence); });
    co_await shielded(sequence.finished.wait());
  }
  if (sequence.cancelled) throw Cancelled(cancellation.reason());
  if (sequence.exception) std::rethrow_exception(sequence.exception);
  if (sequence.failure) co_return *std::move(sequence.failure);
  co_return std::move(sequence.completion);
}

void NativeEngine::start_stepping() {
  if (stepping_) return;
  stepping_ = true;
  scope_.spawn(step_until_idle(), "engine");
}

Task<> NativeEngine::step_until_idle() {
  try {
    while (!scheduler_->idle()) {
      if (closed_) {
        scheduler_->end_all(shut_down(), nullptr);
        break;
      }
      StepPlan& plan = scheduler_->plan();
      if (plan.empty()) continue;  // the last requests were cancelled
      co_await step(plan);
    }
  } catch (...) {
    broken_ = std::current_exception();
    computing_ = false;
    scheduler_->end_all(std::nullopt, broken_);
    serve_published();
  }
  stepping_ = false;
}

// Computes the plan on the pool and hands out its results.
Task<> NativeEngine::step(StepPlan& plan) {
  const size_t wanted = plan.logit_rows.size() * static_cast<size_t>(options_.vocabulary_size);
  if (logits_.size() < wanted) logits_.resize(wanted);
  computing_ = true;
  const Duration busy = co_await pool_.run([this, &plan](Parallel& parallel) {
    const TimePoint start = executor_.now();  // in the job, so that waiting for a turn is not counted
    compute(plan, parallel);
    return executor_.now() - start;
  });
  computing_ = false;
  busy_seconds_ += to_seconds(busy);
  scheduler_->complete(plan, version_);
  serve_published();
}

// On the pool: logits of the plan's rows, and a token for each.
void NativeEngine::compute(StepPlan& plan, Parallel& parallel) {
  forward_->run(plan.chunks, plan.logit_rows, logits_.data(), parallel);
  const auto rows = static_cast<int64_t>(plan.logit_rows.size());
  const auto parts = static_cast<int64_t>(samplers_.size());
  const auto vocabulary = static_cast<size_t>(options_.vocabulary_size);
  parallel.for_each(static_cast<int>(parts), [&](int part) {
    for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
      const auto index = static_cast<size_t>(row);
      const Sequence& sequence = *plan.sampling[index];
      const uint64_t position = sequence.first_position + static_cast<uint64_t>(sequence.sampled());
      const std::span<const float> logits(logits_.data() + index * vocabulary, vocabulary);
      Result<SampledId> sampled = samplers_[static_cast<size_t>(part)].sample(
          logits, sequence.sampling, random_uniform(sequence.stream, position),
          {sequence.tokens, sequence.sampled_in_turn(), sequence.mask.get()});
      if (sampled) {
        plan.sampled[index] = *std::move(sampled);
      } else {
        plan.failures[index] = sampled.failure();
      }
    }
  });
}

// Between two steps: the published weights take over.
void NativeEngine::serve_published() {
  if (published_forward_ == nullptr) return;
  outdated_ = forward_->weights();
  forward_ = std::exchange(published_forward_, nullptr);
  version_ = published_version_;
  scheduler_->weights_changed();
  served_.set();
}

// The configuration fixes the manifest, so names and shapes agree when it does. The bytes are the Learner's
// own, immutable and shared by pointer: nothing is transferred that a digest could find broken.
Task<Result<Done>> NativeEngine::make_ready(const WeightsPtr& weights) {
  if (weights->config() != config_) {
    co_return Failure{FailureClass::kInfrastructure, "weights_mismatch",
                      "The published weights are of another architecture than the engine's model."};
  }
  if (broken_) std::rethrow_exception(broken_);
  if (closed_) co_return shut_down();
  if (weights->version() < version_) co_return stale_version(weights->version(), version_);
  // What was prepared and never committed gives its memory back.
  if (prepared_forward_) outdated_ = std::exchange(prepared_forward_, nullptr)->weights();
  ForwardPtr forward = co_await pool_.run([this, &weights](Parallel& parallel) {
    return make_forward(*weights, parallel, std::move(outdated_));
  });
  prepared_forward_ = std::move(forward);
  prepared_version_ = weights->version();
  co_return Done{};
}

Task<Result<Done>> NativeEngine::swap_in(int64_t version) {
  if (broken_) std::rethrow_exception(broken_);
  if (closed_) co_return shut_down();
  if (prepared_forward_ == nullptr || prepared_version_ != version) {
    if (version_ == version) co_return Done{};
    co_return Failure{FailureClass::kInfrastructure, "not_prepared",
                      fmt::format("Version {} was to be swapped in before it was prepared.", version)};
  }
  served_.reset();
  published_forward_ = std::exchange(prepared_forward_, nullptr);
  published_version_ = version;
  if (!computing_) serve_published();
  co_await shielded(served_.wait());
  co_return Done{};
}

Task<Result<Done>> NativeEngine::publish(WeightsPtr weights) {
  const Permit turn = co_await publishing_.acquire();
  Result<Done> ready = co_await make_ready(weights);
  if (!ready) co_return ready;
  co_return co_await swap_in(weights->version());
}

Task<Result<Done>> NativeEngine::prepare(WeightsPtr weights) {
  const Permit turn = co_await publishing_.acquire();
  co_return co_await make_ready(weights);
}

Task<Result<Done>> NativeEngine::commit(int64_t version) {
  const Permit turn = co_await publishing_.acquire();
  co_return co_await swap_in(version);
}

Task<Result<std::vector<float>>> NativeEngine::score(std::vector<int32_t> tokens, float temperature) {
  SamplingParameters parameters{.temperature = temperature};
  validate(parameters);
  check_tokens(tokens);
  if (temperature == 0) temperature = 1;
  if (broken_) std::rethrow_exception(broken_);
  if (closed_) co_return shut_down();
  if (tokens.size() > static_cast<size_t>(config_.max_position_embeddings)) {
    co_return context_length(tokens.size(), config_.max_position_embeddings);
  }
  std::vector<float> scores(tokens.empty() ? 0 : tokens.size() - 1);
  if (scores.empty()) co_return scores;

  const auto unscored = std::find_if(tokens.begin() + 1, tokens.end(),
                                     [this](int32_t id) { return id >= options_.vocabulary_size; });
  if (unscored != tokens.end()) {
    throw input_error(fmt::format("Token id {} has no token in this vocabulary of {}; it cannot be scored.",
                                  *unscored, options_.vocabulary_size));
  }

  const ForwardPtr forward = forward_;  // one version for the whole, whatever is published meanwhile
  const auto count = static_cast<int32_t>(scores.size());
  const auto vocabulary = static_cast<size_t>(options_.vocabulary_size);
  std::vector<std::byte> memory(
      static_cast<size_t>(cpu::kv_block_bytes(config_, options_.compute_type, count)));
  cpu::KvRun run{{memory.data(), count}, 0};
  const int32_t chunk_rows = std::min({count, options_.prefill_chunk, most_scored_rows(vocabulary)});
  std::vector<int32_t> rows(static_cast<size_t>(chunk_rows));
  for (size_t row = 0; row < rows.size(); ++row) rows[row] = static_cast<int32_t>(row);
  std::vector<float> logits(rows.size() * vocabulary);
  for (int32_t begin = 0; begin < count; begin = run.count) {
    run.count = std::min(count, begin + chunk_rows);
    const auto size = static_cast<size_t>(run.count - begin);
    const cpu::SequenceChunk chunk{std::span<const int32_t>(tokens).subspan(static_cast<size_t>(begin), size),
                                   begin, std::span<const cpu::KvRun>(&run, 1)};
    co_await pool_.run([&](Parallel& parallel) {
      forward->run(std::span(&chunk, 1), std::span<const int32_t>(rows).first(size), logits.data(), parallel);
      parallel.for_each(static_cast<int>(size), [&](int row) {
        const std::span<const float> row_logits(logits.data() + static_cast<size_t>(row) * vocabulary,
                                                vocabulary);
        scores[static_cast<size_t>(begin + row)] =
            cpu::log_probability(row_logits, temperature, tokens[static_cast<size_t>(begin + row + 1)]);
      });
    });
  }
  co_return scores;
}

void NativeEngine::shut(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  lost_reason_ = reason;
  if (when_lost_) std::exchange(when_lost_, nullptr)();
}

void NativeEngine::abandon(const std::string& reason) { shut(reason); }

Task<> NativeEngine::close() {
  shut("it was closed");
  co_await shielded(scope_.join());
}

}  // namespace stoker
