#include "train/trainer.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "async/cancellation.h"
#include "async/channel.h"
#include "async/scope.h"
#include "base/error.h"
#include "base/log.h"
#include "train/checkpoint_writer.h"
#include "train/permute_rewards.h"
#include "train/policy_step.h"
#include "train/step_timing.h"
#include "train/variance_watch.h"

namespace stoker {
namespace {

struct EvaluationJob {
  WeightsPtr weights;
  int64_t step = 0;
};

}  // namespace

struct Trainer::State {
  State(TrainerOptions given_options, TrainerParts given_parts, TrainState start)
      : options(std::move(given_options)),
        parts(std::move(given_parts)),
        builder_options(batch_builder_options(options.train.algorithm, options.temperature,
                                              options.train.micro_batch_tokens)),
        loss_options(policy_loss_options(options.train.algorithm)),
        schedule(learning_rate_schedule(options.train.optimizer, options.total_steps)),
        writer(parts.checkpoints, parts.blocking, options.checkpoint.every_steps, start.step),
        at(std::move(start)) {}

  Task<> drive(Scope& scope);
  Task<> train_steps();
  Task<> take_step(const RolloutBatch& batch, StepTimer& timer);
  Task<> evaluate_when_due(bool last);
  Task<> evaluate_what_was_cut_off();
  bool evaluation_due() const {
    const int64_t every = options.train.evaluate_every;
    return parts.evaluator != nullptr && every != 0 && at.step % every == 0;
  }
  Task<> save();
  Task<> evaluate_jobs();
  Task<> evaluate(EvaluationJob job);
  Task<std::optional<RolloutBatch>> next_batch();
  Task<> finish_step();
  void check_agreement(const PolicyStepResult& result);
  void request_stop() {
    stopping = true;
    stop.request(CancelReason::kRequested);
  }
  bool done() const { return stopping || at.step >= options.total_steps; }

  TrainerOptions options;
  TrainerParts parts;
  BatchBuilderOptions builder_options;
  PolicyLossOptions loss_options;
  LearningRateSchedule schedule;
  CheckpointWriter writer;
  TrainState at;
  WeightsPtr weights;  // of the last step boundary
  MetricMap metrics;   // of the step in work

  CancellationSource stop;
  bool stopping = false;
  bool warned_of_disagreement = false;
  VarianceWatch variance;
  int64_t evaluated_step = -1;
  std::set<int64_t> unfinished_evaluations;  // steps, from when one is due until it has ended
  double best_score = 0;
  bool has_best = false;
  Channel<EvaluationJob> evaluations{1, "evaluations"};
};

Task<std::optional<RolloutBatch>> Trainer::State::next_batch() {
  try {
    co_return co_await with_cancellation(stop.token(), parts.source.next_batch());
  } catch (const Cancelled&) {
    if (!stopping) throw;
  }
  co_return std::nullopt;
}

// A stop does not wait until the weights serve: nothing is sampled from them any more.
Task<> Trainer::State::finish_step() {
  try {
    co_await with_cancellation(stop.token(), parts.source.step_finished(weights));
  } catch (const Cancelled&) {
    if (!stopping) throw;
  }
}

Task<> Trainer::State::drive(Scope& scope) {
  scope.spawn(with_cancellation(stop.token(), evaluate_jobs()), "evaluations");
  weights = co_await parts.learner.snapshot();
  co_await train_steps();
  co_await save();
  evaluations.close();
}

Task<> Trainer::State::save() {
  at.unfinished_evaluations.assign(unfinished_evaluations.begin(), unfinished_evaluations.end());
  co_await writer.save(at, *weights, parts.learner);
}

Task<> Trainer::State::train_steps() {
  Executor& executor = co_await current_executor();
  co_await evaluate_what_was_cut_off();
  if (at.step == 0 && options.train.evaluate_at_start) co_await evaluate_when_due(true);
  while (!done()) {
    StepTimer timer(executor);
    std::optional<RolloutBatch> batch = co_await next_batch();
    if (!batch) break;
    timer.lap("wait_for_batch");
    metrics.clear();
    co_await take_step(*batch, timer);
    if (evaluation_due()) unfinished_evaluations.insert(at.step);
    if (writer.due(at.step)) co_await save();
    timer.lap("checkpoint");
    timer.add_metrics(*batch, metrics);
    if (parts.on_step) parts.on_step(at.step, metrics);
    co_await evaluate_when_due(false);
  }
  if (!stopping && options.train.evaluate_at_end) co_await evaluate_when_due(true);
}

Task<> Trainer::State::take_step(const RolloutBatch& batch, StepTimer& timer) {
  TrainingBatch training =
      options.train.algorithm.permute_rewards
          ? build_training_batch(with_permuted_rewards(batch, options.seed), builder_options)
          : build_training_batch(batch, builder_options);
  double rate = learning_rate(schedule, at.step);
  bool trainable = !training.micro_batches.empty();
  if (trainable) {
    PolicyStepResult result = co_await policy_step(parts.learner, training, loss_options, rate);
    weights = co_await parts.learner.snapshot();
    check_agreement(result);
    add_metrics(result, metrics);
  } else {
    ++at.skipped_steps;
  }
  ++at.step;
  at.version = parts.learner.version();
  at.next_ordinal = parts.source.next_ordinal();
  at.open_ordinals = parts.source.open_ordinals();
  at.counters["episodes"] += static_cast<double>(training.counts.rows);
  at.counters["num_tokens"] += static_cast<double>(training.counts.forward_tokens);
  at.counters[kStepsWithoutVariance] += lacks_variance(training.counts) ? 1 : 0;
  if (const std::optional<std::string> sentence = variance.take(training.counts))
    log_warning("{}", *sentence);
  timer.lap("train");
  if (trainable) {
    co_await finish_step();
  } else {
    parts.source.step_skipped();
  }
  timer.lap("publish");

  stoker::add_metrics(training.counts, metrics);
  if (double seconds = timer.seconds("train"); seconds > 0) {
    metrics["training_tok/s"] = static_cast<double>(training.counts.forward_tokens) / seconds;
  }
  metrics["learning_rate"] = rate;
  metrics["version"] = static_cast<double>(at.version);
  metrics["skipped_steps"] = static_cast<double>(at.skipped_steps);
  for (const auto& [name, value] : at.counters) metrics[name] = value;
  parts.source.add_metrics(batch, metrics);
}

// Sampler and trainer share kernels: on the same weights they must agree to the last bit.
void Trainer::State::check_agreement(const PolicyStepResult& result) {
  if (!options.exact_log_probabilities || warned_of_disagreement || result.current.difference_max == 0)
    return;
  warned_of_disagreement = true;
  log_warning(
      "Sampler and trainer disagree on the same weights: log-probabilities of step {} differ by up to {}. "
      "The policy "
      "ratio is biased by it; look for a kernel that is not batch-invariant.",
      at.step + 1, result.current.difference_max);
}

Task<> Trainer::State::evaluate_when_due(bool last) {
  if (parts.evaluator == nullptr || at.step == evaluated_step || stopping) co_return;
  if (!last && !evaluation_due()) co_return;
  evaluated_step = at.step;
  unfinished_evaluations.insert(at.step);
  // Waits when an earlier one still runs and the next is queued: no evaluation is left out for want of time.
  co_await evaluations.send({.weights = weights, .step = at.step});
}

// Of a resumed run: the evaluations that the checkpoint knew of as not ended. Only the checkpoint's own step
// still has its weights.
Task<> Trainer::State::evaluate_what_was_cut_off() {
  for (int64_t step : std::exchange(at.unfinished_evaluations, {})) {
    if (step == at.step) {
      co_await evaluate_when_due(true);
    } else if (parts.evaluator != nullptr) {
      log_warning(
          "The evaluation of step {} was cut off and is left out: the run goes on from step {}. Save a "
          "checkpoint for each evaluation (checkpoint.every_steps) to have it repeated.",
          step, at.step);
    }
  }
}

Task<> Trainer::State::evaluate_jobs() {
  try {
    while (std::optional<EvaluationJob> job = co_await evaluations.receive()) {
      co_await evaluate(std::move(*job));
    }
  } catch (const Cancelled&) {
    evaluations.close();  // nobody receives any more: who waits to send must not wait for ever
    throw;
  } catch (...) {
    evaluations.close();
    request_stop();  // the run ends at the next boundary, and with this exception
    throw;
  }
}

Task<> Trainer::State::evaluate(EvaluationJob job) {
  Evaluation evaluation = co_await parts.evaluator->evaluate(job.weights, job.step);
  unfinished_evaluations.erase(job.step);
  if (parts.on_evaluation) parts.on_evaluation(job.step, evaluation);
  if (parts.checkpoints == nullptr || !options.checkpoint.keep_best) co_return;
  if (has_best && evaluation.score <= best_score) co_return;
  has_best = true;
  best_score = evaluation.score;
  co_await writer.save_best(*job.weights, job.step, evaluation.score, evaluation.metrics);
}

Trainer::Trainer(TrainerOptions options, TrainerParts parts, TrainState start)
    : state_(std::make_unique<State>(std::move(options), std::move(parts), std::move(start))) {
  if (state_->at.version != state_->parts.learner.version()) {
    throw internal_error(fmt::format("The trainer starts at version {}, its learner holds version {}.",
                                     state_->at.version, state_->parts.learner.version()));
  }
  state_->at.phase = "train";
  if (state_->parts.checkpoints == nullptr || state_->at.step == 0) return;
  if (std::optional<BestModel> best = state_->parts.checkpoints->best()) {
    state_->has_best = true;
    state_->best_score = best->score;
  }
}

Trainer::~Trainer() = default;

Task<TrainSummary> Trainer::run() {
  State* state = state_.get();
  co_await run_scope([](Scope& scope, State* self) { return self->drive(scope); }, state);
  co_return TrainSummary{
      .state = state->at, .interrupted = state->stopping, .checkpoint = state->writer.last_saved()};
}

void Trainer::request_stop() { state_->request_stop(); }

void check_training(const TrainConfig& config, int64_t group_size, double temperature) {
  if (group_size < 2) {
    throw input_error(
        fmt::format("The group size is {}: the advantage of an episode is its reward less its group's "
                    "mean, which needs at least 2 episodes a group.",
                    group_size));
  }
  if (!(temperature > 0)) {
    throw input_error(
        fmt::format("The training temperature is {}: greedy episodes of a group are all alike and teach "
                    "nothing; set it above 0, usually to 1.",
                    temperature));
  }
  if (config.optimizer.learning_rate == 0) {
    log_warning(
        "The learning rate is 0: the weights will not change. Set train.optimizer.learning_rate above 0.");
  }
}

}  // namespace stoker
