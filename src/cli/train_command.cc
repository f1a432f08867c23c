#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>

#include "async/cancellation.h"
#include "async/run.h"
#include "async/scope.h"
#include "base/figure_report.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/policy_evaluator.h"
#include "cli/preflight.h"
#include "cli/run_recorder.h"
#include "cli/run_start.h"
#include "cli/training_engine.h"
#include "compute/cpu/cpu_learner.h"
#include "model/model_directory.h"
#include "observe/perfetto_writer.h"
#include "rollout/run_activity.h"
#include "rollout/stall_watch.h"
#include "train/orchestrator_source.h"
#include "train/trainer.h"
#include "trajectory/episode_file.h"

namespace stoker {
namespace {

std::vector<RunRecorder::Column> policy_step_columns(bool adaptive_depth) {
  std::vector<RunRecorder::Column> columns = {{"reward", "reward", "{:.3f}"},
                                              {"success", "success", "{:.3f}"},
                                              {"completions/mean_length", "length", "{:.1f}"},
                                              {"engine/tokens_per_second", "tok/s", "{:.0f}"},
                                              {"step_time", "step", "{:.2f}s"},
                                              {"time/generate", "generate", "{:.2f}"},
                                              {"time/tools", "tools", "{:.2f}"},
                                              {"time/train", "train", "{:.2f}"},
                                              {"time/publish", "publish", "{:.3f}"},
                                              {"queue/ready_groups", "queue", "{:.0f}"},
                                              {"staleness/lag/mean", "lag", "{:.2f}"}};
  if (adaptive_depth) columns.push_back({"staleness/depth", "depth", "{:.0f}"});
  return columns;
}

// Whether the run up to `state` has consumed the episode; others are played again, and evaluations that are
// repeated or come behind it too.
bool belongs_to(const TrainState& state, const EpisodeRecord& record) {
  long long step = 0;
  if (std::sscanf(record.purpose.c_str(), "step %lld ", &step) == 1) {
    const std::vector<int64_t>& cut_off = state.unfinished_evaluations;
    const bool repeated =
        step == state.step && std::find(cut_off.begin(), cut_off.end(), step) != cut_off.end();
    return step <= state.step && !repeated;
  }
  bool open = std::find(state.open_ordinals.begin(), state.open_ordinals.end(), record.id.task_ordinal) !=
              state.open_ordinals.end();
  return record.id.task_ordinal < state.next_ordinal && !open;
}

// The run folder's episodes, those behind the checkpoint of a resumed run removed; all where it has none.
std::filesystem::path episodes_to_continue(const RunStart& start) {
  std::filesystem::path folder = start.folder.episodes();
  if (std::filesystem::is_directory(folder)) {
    keep_episodes(folder, [&start](const EpisodeRecord& record) {
      return start.checkpoint && belongs_to(start.state, record);
    });
  }
  return folder;
}

// Traces tell nanoseconds since 1970, so that those of a resumed run follow each other.
int64_t trace_time_offset(const Executor& executor) {
  return static_cast<int64_t>(wall_clock_seconds() * 1e9) - executor.now().time_since_epoch().count();
}

// Keeps the versions that are to be evaluated, for after the run.
class LateEvaluations final : public Evaluator {
 public:
  Task<Evaluation> evaluate(WeightsPtr weights, int64_t step) override {
    kept_.emplace_back(step, std::move(weights));
    co_return Evaluation{};
  }
  std::vector<std::pair<int64_t, WeightsPtr>> take() { return std::exchange(kept_, {}); }

 private:
  std::vector<std::pair<int64_t, WeightsPtr>> kept_;
};

// One reinforcement-learning run, from its parts to its end. Members are in order of dependence.
class TrainingRun {
 public:
  TrainingRun(const RunFileArguments& arguments, const RunFile& file, Session& session, RunStart& start,
              Recompute recompute)
      : config_(file.config),
        session_(session),
        start_(start),
        learner_(starting_weights(start, session), optimizer_options(config_.train.optimizer),
                 session.vocabulary_size(), session.compute(), compute_type(config_.model.compute_type),
                 recompute),
        recorder_(session.executor(), start.folder.path(), config_.rollout.steps,
                  policy_step_columns(config_.rollout.adaptive_depth), arguments.quiet, start.resume_step(),
                  config_.metrics_port),
        episodes_(episodes_to_continue(start)),
        event_log_(start.folder.event_file(), start.checkpoint.has_value()),
        trace_(start.folder.trace(), {.time_offset = trace_time_offset(session.executor())}),
        tasks_(session.environment().training_tasks(static_cast<uint64_t>(config_.seed))),
        evaluator_(
            session, config_, [this](const EpisodeRecord& record) { episodes_.append(record); }, &activity_),
        engine_(session, config_, start.folder.path(), arguments.program) {
    if (start.checkpoint) {
      learner_.restore(starting_weights(start, session), start.checkpoint->optimizer_folder());
    }
  }

  Task<TrainSummary> run() {
    WeightsPtr weights = co_await learner_.snapshot();
    TrainSummary summary;
    std::exception_ptr failure;
    try {
      if (co_await open_engine(weights)) {
        weights.reset();
        summary = co_await train();
      } else {
        summary = unbegun();
      }
    } catch (...) {
      failure = std::current_exception();
    }
    co_await shielded(engine_.close());
    if (!failure) co_await evaluate_late();
    recorder_.finish();
    if (failure) std::rethrow_exception(failure);
    save_model(learner_weights_ = co_await learner_.snapshot());
    co_return summary;
  }

  void request_stop() {
    stop_requested_ = true;
    opening_.request(CancelReason::kShutdown);
    if (trainer_) trainer_->request_stop();
  }

  // What the run came to, of adaptive depth; else rollout.max_ahead. Empty: it was stopped before it began.
  std::optional<int32_t> found_depth() const {
    if (!orchestrator_) return std::nullopt;
    return orchestrator_->controller().found_depth();
  }

  // Evaluations in order: step and metrics.
  const std::vector<std::pair<int64_t, MetricMap>>& evaluations() const { return evaluations_; }

 private:
  // False: a stop was requested meanwhile. Engines in other processes take time to start, and may hang.
  Task<bool> open_engine(WeightsPtr weights) {
    try {
      co_await with_cancellation(opening_.token(), engine_.open(weights));
      co_return true;
    } catch (const Cancelled&) {
      if (!stop_requested_) throw;
    }
    co_return false;
  }

  // Of a run that was stopped before its first step.
  TrainSummary unbegun() const {
    TrainSummary summary{.state = start_.state, .interrupted = true};
    if (start_.checkpoint) summary.checkpoint = start_.checkpoint->folder;
    return summary;
  }

  // From the open engine to the end of the last step.
  Task<TrainSummary> train() {
    Engine& engine = engine_.engine();
    runner_ = session_.training_runner(engine, &activity_);
    orchestrator_ = std::make_unique<Orchestrator>(orchestrator_options(), *runner_, *tasks_, engine);
    source_ =
        std::make_unique<OrchestratorSource>(*orchestrator_, engine, session_.executor(), runner_.get());
    trainer_ = std::make_unique<Trainer>(trainer_options(), trainer_parts(), start_.state);
    TrainSummary summary;
    std::exception_ptr failure;
    Scope watch(session_.executor());
    watch.spawn(watch_for_stalls(activity_, {.stall_seconds = config_.rollout.stall_seconds},
                                 [](const std::string& sentence) { log_warning("Stuck: {}.", sentence); }),
                "stall watch");
    try {
      if (stop_requested_) trainer_->request_stop();
      co_await orchestrator_->start();
      summary = co_await trainer_->run();
    } catch (...) {
      failure = std::current_exception();
    }
    co_await shielded(orchestrator_->close());
    watch.cancel();
    co_await shielded(watch.join());
    if (failure) std::rethrow_exception(failure);
    co_return summary;
  }

  Orchestrator::Options orchestrator_options() {
    Orchestrator::Options options;
    options.controller = controller_options(config_.rollout);
    options.first_ordinal = start_.state.next_ordinal;
    options.open_ordinals = start_.state.open_ordinals;
    options.first_version = start_.state.version;
    options.trained_batches = start_.state.step;
    options.event_log = [this](const Json& line) { event_log_.write_line(line.dump()); };
    options.episode_finished = [this](const EpisodeRecord& record) { finish_episode(record); };
    options.activity = &activity_;
    return options;
  }

  void finish_episode(const EpisodeRecord& record) {
    episodes_.append(record);
    if (timed_out_ || !record.failure) return;
    const std::string& reason = record.failure->reason;
    timed_out_ = reason == "timeout" || reason == "wall_clock";
    if (!timed_out_) return;
    log_warning(
        "A wall-clock limit ended episode {} ({}): from here on this run need not repeat bit for bit.",
        record.id.to_string(), record.failure->name());
  }

  bool late() const { return config_.train.evaluate_after_run; }

  Task<> evaluate_late() {
    for (const auto& [step, weights] : late_evaluations_.take()) {
      if (stop_requested_) co_return;
      finish_evaluation(step, co_await evaluator_.evaluate(weights, step));
    }
  }

  void finish_evaluation(int64_t step, const Evaluation& evaluation) {
    evaluations_.emplace_back(step, evaluation.metrics);
    recorder_.record_evaluation(step, evaluation.metrics,
                                evaluation_line(step, evaluation.metrics, config_.evaluate.temperatures));
  }

  TrainerOptions trainer_options() const {
    CheckpointConfig checkpoint = config_.checkpoint;
    checkpoint.keep_best = checkpoint.keep_best && !late();
    return {.train = config_.train,
            .checkpoint = checkpoint,
            .total_steps = config_.rollout.steps,
            .seed = static_cast<uint64_t>(config_.seed),
            .temperature = config_.rollout.sampling.temperature,
            .exact_log_probabilities = engine_.engine().capabilities().exact_log_probabilities};
  }

  TrainerParts trainer_parts() {
    return {.learner = learner_,
            .source = *source_,
            .evaluator = late() ? static_cast<Evaluator*>(&late_evaluations_) : &evaluator_,
            .checkpoints = &start_.checkpoints,
            .blocking = &session_.blocking(),
            .on_step =
                [this](int64_t step, const MetricMap& metrics) {
                  recorder_.record_step(step, metrics);
                  trace_.flush();
                },
            .on_evaluation =
                [this](int64_t step, const Evaluation& evaluation) {
                  if (!late()) finish_evaluation(step, evaluation);
                }};
  }

  void save_model(const WeightsPtr& weights) const {
    write_folder_atomic(start_.folder.model(), [&](const std::filesystem::path& folder) {
      stoker::save_model(folder, *weights, start_.tokenizer_source());
    });
  }

  const RunConfig& config_;
  Session& session_;
  RunStart& start_;
  cpu::CpuLearner learner_;
  RunRecorder recorder_;
  EpisodeWriter episodes_;
  LineWriter event_log_;
  PerfettoWriter trace_;
  RunActivity activity_{&trace_};
  std::unique_ptr<TaskSource> tasks_;
  PolicyEvaluator evaluator_;
  LateEvaluations late_evaluations_;
  WeightsPtr learner_weights_;
  TrainingEngine engine_;
  std::unique_ptr<EpisodeRunner> runner_;
  std::unique_ptr<Orchestrator> orchestrator_;
  std::unique_ptr<OrchestratorSource> source_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::pair<int64_t, MetricMap>> evaluations_;
  CancellationSource opening_;  // of the engine
  bool stop_requested_ = false;
  bool timed_out_ = false;
};

// success_before, success_after (greedy), success_before_sampled, success_after_sampled; other temperatures
// than 0 and 1 carry their number.
void add_success(const RunConfig& config, const TrainingRun& run, FigureReport& report) {
  if (run.evaluations().empty()) return;
  const auto& [first_step, before] = run.evaluations().front();
  const auto& [last_step, after] = run.evaluations().back();
  auto add = [&](const char* when, const MetricMap& metrics) {
    for (double temperature : config.evaluate.temperatures) {
      auto success = metrics.find("eval/" + sampling_name(temperature) + "/success");
      if (success == metrics.end()) continue;
      std::string suffix = temperature == 0   ? ""
                           : temperature == 1 ? "_sampled"
                                              : "_" + sampling_name(temperature);
      report.add({fmt::format("success_{}{}", when, suffix), success->second, "share", {}, config.seed});
    }
  };
  if (first_step == 0) add("before", before);
  if (last_step > 0) add("after", after);
}

void print_result(const RunConfig& config, const RunStart& start, const TrainSummary& summary) {
  fmt::print("steps                       {}/{}\n", summary.state.step, config.rollout.steps);
  const auto lacking = summary.state.counters.find(kStepsWithoutVariance);
  if (lacking != summary.state.counters.end() && lacking->second > 0) {
    fmt::print(
        "steps without variance      {:.0f} (all rewards of each group were equal: nothing was learned)\n",
        lacking->second);
  }
  fmt::print("model                       {}\n", start.folder.model().string());
  if (summary.checkpoint) fmt::print("checkpoint                  {}\n", summary.checkpoint->string());
  fmt::print("run folder                  {}\n", start.folder.path().string());
}

}  // namespace

int run_train(const RunFileArguments& arguments, InterruptWatch& interrupts) {
  RunFile file = read_run_file(arguments);
  if (arguments.dry_run) {
    fmt::print("{}", file.resolved);
    return kExitDone;
  }
  check_training(file.config.train, file.config.rollout.group_size, file.config.rollout.sampling.temperature);
  check_run_folder(arguments, file.config);
  Session session(file.config);
  BeforeRun before = check_before_run(session, file.config, interrupts);
  RunStart start = start_run(arguments, file, "train");
  for (const std::string& line : before.lines) log_info("{}", line);
  TrainingRun training(arguments, file, session, start, before.recompute);
  auto delivery = interrupts.deliver_to(session.executor(), [&training] { training.request_stop(); });
  TrainSummary summary = run(session.executor(), training.run(), {}, "train");

  FigureReport report;
  add_success(file.config, training, report);
  print_result(file.config, start, summary);
  const std::optional<int32_t> depth = training.found_depth();
  if (file.config.rollout.adaptive_depth && depth) {
    fmt::print("depth found                 {} of at most {}\n", *depth, file.config.rollout.max_ahead);
  }
  write_figures(report, arguments.json);
  if (!summary.interrupted) return kExitDone;
  log_info("Interrupted after step {}; 'stoker train ... --resume' goes on from {}.", summary.state.step,
           summary.checkpoint ? summary.checkpoint->string() : std::string("the beginning"));
  return kExitInterrupted;
}

}  // namespace stoker
