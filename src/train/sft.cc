#include "train/sft.h"

#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "train/checkpoint_writer.h"
#include "train/divergence.h"

namespace stoker {
namespace {

// Sums over the micro-batches of one step.
struct SftStepResult {
  StepResult step;
  double loss = 0;
  double entropy_sum = 0;
  int64_t trained_tokens = 0;
  int64_t forward_tokens = 0;
};

// -sum(log-probability) / tokens over the whole step; its derivative is the same for every token.
Task<SftStepResult> sft_step(Learner& learner, std::span<const SftExample> examples,
                             int64_t micro_batch_tokens, double rate) {
  SftStepResult result;
  for (const SftExample& example : examples) result.trained_tokens += example.trained_count();
  double weight = 1.0 / static_cast<double>(result.trained_tokens);
  for (const SftMicroBatch& micro_batch : pack_sft_examples(examples, micro_batch_tokens)) {
    ForwardResult forward = co_await learner.forward(micro_batch.batch);
    for (float log_probability : forward.scores.log_probability) result.loss -= weight * log_probability;
    for (float entropy : forward.scores.entropy) result.entropy_sum += entropy;
    result.forward_tokens += micro_batch.tokens;
    Coefficients coefficients;
    coefficients.log_probability.assign(forward.scores.log_probability.size(), static_cast<float>(-weight));
    co_await learner.backward(std::move(forward.tape), coefficients);
  }
  check_loss_is_finite(result.loss, learner.version());
  result.step = co_await learner.step(rate);
  check_gradient_is_finite(result.step);
  co_return result;
}

}  // namespace

struct SftTrainer::State {
  State(SftConfig given_config, CheckpointConfig checkpoint, SftParts given_parts, TrainState start)
      : config(std::move(given_config)),
        parts(std::move(given_parts)),
        schedule(learning_rate_schedule(config.optimizer, config.steps)),
        writer(parts.checkpoints, parts.blocking, checkpoint.every_steps, start.step),
        at(std::move(start)) {}

  Task<> take_step();
  std::vector<SftExample> next_examples();
  void record(const SftStepResult& result, double rate, double seconds);
  bool converged() const;

  SftConfig config;
  SftParts parts;
  LearningRateSchedule schedule;
  CheckpointWriter writer;
  TrainState at;
  bool stopping = false;
};

std::vector<SftExample> SftTrainer::State::next_examples() {
  std::vector<SftExample> examples;
  int32_t context = parts.learner.config().max_position_embeddings;
  for (int64_t i = 0; i < config.batch_size; ++i) {
    uint64_t index = at.next_ordinal + static_cast<uint64_t>(i);
    examples.push_back(parts.examples.example(index));
    auto length = static_cast<int64_t>(examples.back().tokens.size());
    if (length - 1 > context) {
      throw input_error(
          fmt::format("Example {} has {} tokens, more than the model's context of {}: shorten it or take it "
                      "out of the data.",
                      index, length, context));
    }
  }
  return examples;
}

Task<> SftTrainer::State::take_step() {
  Executor& executor = co_await current_executor();
  TimePoint start = executor.now();
  std::vector<SftExample> examples = next_examples();
  double rate = learning_rate(schedule, at.step);
  SftStepResult result = co_await sft_step(parts.learner, examples, config.micro_batch_tokens, rate);
  ++at.step;
  at.version = result.step.version;
  at.next_ordinal += static_cast<uint64_t>(config.batch_size);
  at.recent_losses.push_back(result.loss);
  if (static_cast<int64_t>(at.recent_losses.size()) > config.stop_window) {
    at.recent_losses.erase(at.recent_losses.begin());
  }
  at.counters["num_tokens"] += static_cast<double>(result.forward_tokens);
  record(result, rate, to_seconds(executor.now() - start));
}

void SftTrainer::State::record(const SftStepResult& result, double rate, double seconds) {
  if (!parts.on_step) return;
  MetricMap metrics = {{"loss", result.loss},
                       {"entropy", result.entropy_sum / static_cast<double>(result.trained_tokens)},
                       {"grad_norm", result.step.gradient_norm},
                       {"learning_rate", rate},
                       {"num_tokens", at.counters["num_tokens"]},
                       {"tokens/trained", static_cast<double>(result.trained_tokens)},
                       {"tokens/forward", static_cast<double>(result.forward_tokens)},
                       {"step_time", seconds}};
  if (seconds > 0) metrics["training_tok/s"] = static_cast<double>(result.forward_tokens) / seconds;
  parts.on_step(at.step, metrics);
}

bool SftTrainer::State::converged() const {
  const std::vector<double>& losses = at.recent_losses;
  if (config.stop_loss <= 0 || at.step < config.minimum_steps) return false;
  if (static_cast<int64_t>(losses.size()) < config.stop_window) return false;
  double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  return sum / static_cast<double>(losses.size()) < config.stop_loss;
}

SftTrainer::SftTrainer(SftConfig config, CheckpointConfig checkpoint, SftParts parts, TrainState start)
    : state_(std::make_unique<State>(std::move(config), std::move(checkpoint), std::move(parts),
                                     std::move(start))) {
  if (state_->at.version != state_->parts.learner.version()) {
    throw internal_error(fmt::format("The trainer starts at version {}, its learner holds version {}.",
                                     state_->at.version, state_->parts.learner.version()));
  }
  state_->at.phase = "sft";
}

SftTrainer::~SftTrainer() = default;

Task<SftSummary> SftTrainer::run() {
  State& state = *state_;
  // Weights are taken only where they are saved: a snapshot costs a copy.
  while (!state.stopping && !state.converged() && state.at.step < state.config.steps) {
    co_await state.take_step();
    if (!state.writer.due(state.at.step)) continue;
    WeightsPtr weights = co_await state.parts.learner.snapshot();
    co_await state.writer.save(state.at, *weights, state.parts.learner);
  }
  WeightsPtr weights = co_await state.parts.learner.snapshot();
  co_await state.writer.save(state.at, *weights, state.parts.learner);
  co_return SftSummary{.state = state.at,
                       .interrupted = state.stopping,
                       .converged = state.converged(),
                       .checkpoint = state.writer.last_saved()};
}

void SftTrainer::request_stop() { state_->stopping = true; }

}  // namespace stoker
