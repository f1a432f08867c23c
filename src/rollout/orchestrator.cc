#include "rollout/orchestrator.h"

#include <algorithm>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "async/cancellation.h"
#include "async/event.h"
#include "async/scope.h"
#include "async/sleep.h"
#include "base/log.h"
#include "rollout/event_log.h"

namespace stoker {
namespace {

// A group whose members are being played.
struct GroupInProgress {
  std::optional<TaskRow> task;  // read when the first member starts
  int64_t dispatch_version = 0;
  std::vector<EpisodeRecord> episodes;  // by sample: the last attempt that ended
};

}  // namespace

struct Orchestrator::State {
  State(Options given, EpisodePlayer& episode_player, const TaskSource& task_source, Engine& served)
      : options(std::move(given)),
        player(episode_player),
        tasks(task_source),
        engine(served),
        controller(options.controller),
        activity(options.activity != nullptr ? *options.activity : own_activity) {}

  void emit(RunEvent event);
  void execute(Decision& decision);
  void start_episode(const EpisodeId& id, Duration delay);
  void drop_group(const Decision& decision);
  Task<> play_episode(EpisodeId id, Duration delay);
  Task<> play_attempt(EpisodeId id, Duration delay, std::optional<EpisodeRecord>& record);
  void end_episode(const EpisodeId& id, std::optional<EpisodeRecord> record);
  void hand_over(const Decision& decision);
  Task<> wait_at_barrier();
  void fail(std::exception_ptr exception);
  void stop();
  int64_t now() const { return scope->executor().now().time_since_epoch().count(); }

  Options options;
  EpisodePlayer& player;
  const TaskSource& tasks;
  Engine& engine;
  Controller controller;
  RunActivity own_activity;
  RunActivity& activity;

  std::optional<Scope> scope;  // the episodes; empty before start
  std::map<EpisodeId, CancellationSource> running;
  std::map<uint64_t, GroupInProgress> groups;

  std::optional<RolloutBatch> batch;   // handed over, not yet taken by next_batch
  std::optional<int64_t> publication;  // decided, not yet done
  WeightsPtr weights;                  // of the last step
  bool over = false;
  std::exception_ptr failure;
  Event changed{"next batch"};
};

// Gives the event to the controller, logs it and executes what was decided.
void Orchestrator::State::emit(RunEvent event) {
  event.time = now();
  if (options.controller.adaptive_depth) event.sampled_tokens = engine.statistics().sampled_tokens;
  std::vector<Decision> decisions = controller.handle(event);
  if (options.event_log) options.event_log(event_log_line(event, decisions));
  for (Decision& decision : decisions) execute(decision);
  activity.sample(controller, engine, event.time);
}

void Orchestrator::State::execute(Decision& decision) {
  switch (decision.kind) {
    case DecisionKind::kStartEpisode:
      return start_episode(decision.episode, Duration(decision.delay));
    case DecisionKind::kCancelEpisode:
      running.at(decision.episode).request(CancelReason::kRequested);
      return;
    case DecisionKind::kConsumeBatch:
      return hand_over(decision);
    case DecisionKind::kDropGroup:
    case DecisionKind::kSetAside:
      return drop_group(decision);
    case DecisionKind::kPublish:
      publication = decision.version;
      changed.set();
      return;
    case DecisionKind::kSetDepth:
      log_debug("The depth is {} from here on: {}.", decision.depth, decision.reason);
      return;
    case DecisionKind::kGiveUp:
      if (!failure) {
        failure = std::make_exception_ptr(resource_error("The run cannot go on: " + decision.reason + "."));
      }
      [[fallthrough]];
    case DecisionKind::kFinish:
      over = true;
      changed.set();
      return;
  }
}

void Orchestrator::State::drop_group(const Decision& decision) {
  const auto group = groups.find(decision.groups.at(0));
  if (decision.kind == DecisionKind::kSetAside && group != groups.end() && group->second.task) {
    log_warning("Task {} (ordinal {}) is set aside: {}.", group->second.task->id, group->first,
                decision.reason);
  }
  activity.group_dropped(decision.groups.at(0), decision.reason, now());
  if (group != groups.end()) groups.erase(group);
}

void Orchestrator::State::start_episode(const EpisodeId& id, Duration delay) {
  if (over) return;  // the run failed outside of the controller's knowledge
  GroupInProgress& group = groups[id.task_ordinal];
  if (group.episodes.empty()) {
    group.episodes.resize(static_cast<size_t>(options.controller.group_size));
    group.dispatch_version = engine.version();
    activity.group_started(id.task_ordinal, now());
  }
  running.try_emplace(id, scope->token());
  scope->spawn(play_episode(id, delay), "episode " + id.to_string());
}

Task<> Orchestrator::State::play_episode(EpisodeId id, Duration delay) {
  std::optional<EpisodeRecord> record;
  try {
    co_await with_cancellation(running.at(id).token(), play_attempt(id, delay, record));
  } catch (const Cancelled&) {
    // The record stays empty: nobody waits for what a cancelled attempt made.
  } catch (...) {
    fail(std::current_exception());
  }
  try {
    if (scope->token().requested()) stop();
    end_episode(id, std::move(record));
  } catch (...) {
    fail(std::current_exception());
  }
}

// Fills in the record, which stays empty when the attempt is cancelled.
Task<> Orchestrator::State::play_attempt(EpisodeId id, Duration delay, std::optional<EpisodeRecord>& record) {
  if (delay > Duration::zero()) co_await sleep_for(delay);
  // A group that was dropped before this began, or as the delay ended, has cancelled it: `running` holds its
  // source still.
  running.at(id).token().throw_if_requested();
  GroupInProgress& group = groups.at(id.task_ordinal);
  if (!group.task) group.task = tasks.task(id.task_ordinal);
  record = co_await player.run(id, *group.task);
}

void Orchestrator::State::end_episode(const EpisodeId& id, std::optional<EpisodeRecord> record) {
  RunEvent event{.kind = RunEventKind::kEpisodeFinished, .episode = id};
  running.erase(id);
  if (record) {
    if (options.episode_finished) options.episode_finished(*record);
    if (record->failure) event.failure = record->failure->name();
    event.scored = record->reward.has_value();
    event.oldest_version = record->trajectory.oldest_version().value_or(-1);
    const auto group = groups.find(id.task_ordinal);
    if (group != groups.end()) group->second.episodes.at(id.sample) = *std::move(record);
  } else {
    event.failure = "infrastructure.cancelled";
  }
  emit(std::move(event));
}

void Orchestrator::State::hand_over(const Decision& decision) {
  RolloutBatch next{.step = decision.version};
  if (options.controller.stale_action == StaleAction::kMask) {
    next.oldest_trained_version = std::max<int64_t>(0, decision.version - options.controller.max_staleness);
  }
  for (uint64_t ordinal : decision.groups) {
    auto node = groups.extract(ordinal);
    GroupInProgress& group = node.mapped();
    next.groups.push_back({.task_ordinal = ordinal,
                           .task_id = std::move(group.task->id),
                           .dispatch_version = group.dispatch_version,
                           .episodes = std::move(group.episodes)});
  }
  activity.batch_taken(next, now());
  batch = std::move(next);
  changed.set();
}

// Ends the run: the first exception comes out of next_batch.
void Orchestrator::State::fail(std::exception_ptr exception) {
  const bool first = failure == nullptr;
  if (first) failure = std::move(exception);
  changed.set();
  if (!first) return;
  try {
    stop();
  } catch (...) {
    // The controller or the log is what failed: only the scope can stop the episodes.
    over = true;
  }
  scope->cancel(CancelReason::kShutdown);
}

void Orchestrator::State::stop() {
  if (!over) emit({.kind = RunEventKind::kStopRequested});
}

// Until the publication that is owed has been decided, or the run is over.
Task<> Orchestrator::State::wait_at_barrier() {
  while (controller.waits_at_barrier() && !over && !failure) {
    changed.reset();
    co_await changed.wait();
  }
}

Orchestrator::Orchestrator(Options options, EpisodePlayer& player, const TaskSource& tasks, Engine& engine)
    : state_(std::make_unique<State>(std::move(options), player, tasks, engine)) {}
Orchestrator::~Orchestrator() = default;

Task<> Orchestrator::start() {
  State& state = *state_;
  if (state.scope) throw internal_error("The orchestrator was started twice.");
  state.scope.emplace(co_await current_executor(), co_await current_cancellation());
  if (state.options.event_log) state.options.event_log(event_log_header(state.options.controller));
  state.activity.started(state.options.first_version, state.now());
  state.emit({.kind = RunEventKind::kStarted,
              .version = state.options.first_version,
              .trained_batches = state.options.trained_batches,
              .first_ordinal = state.options.first_ordinal,
              .open_ordinals = state.options.open_ordinals});
}

Task<std::optional<RolloutBatch>> Orchestrator::next_batch() {
  State& state = *state_;
  if (!state.scope) throw internal_error("The orchestrator was asked for a batch before it was started.");
  if (!state.over && !state.batch) {
    state.activity.learner_waits(state.now());
    state.emit({.kind = RunEventKind::kTrainerReady});
  }
  while (!state.batch && !state.over && !state.failure) {
    state.changed.reset();
    co_await state.changed.wait();
  }
  if (!state.batch) state.activity.learner_idle(state.now());
  if (state.failure) std::rethrow_exception(state.failure);
  co_return std::exchange(state.batch, std::nullopt);
}

Task<> Orchestrator::step_finished(WeightsPtr weights) {
  State& state = *state_;
  state.weights = std::move(weights);
  state.activity.learner_idle(state.now());
  state.emit({.kind = RunEventKind::kStepFinished, .version = state.weights->version()});
  co_await state.wait_at_barrier();
  while (const std::optional<int64_t> version = std::exchange(state.publication, std::nullopt)) {
    state.activity.learner_publishes(*version, state.now());
    const Result<Done> published = co_await shielded(state.engine.publish(state.weights));
    if (!published) {
      throw internal_error(fmt::format("The engine refused the weights of version {}: {}", *version,
                                       published.failure().message));
    }
    state.activity.published(*version, state.now());
    state.emit({.kind = RunEventKind::kPublished, .version = *version});
  }
}

void Orchestrator::step_skipped() {
  state_->activity.learner_idle(state_->now());
  if (!state_->over) state_->emit({.kind = RunEventKind::kStepSkipped});
}

void Orchestrator::request_stop() {
  if (state_->scope) state_->stop();
}

Task<> Orchestrator::close() {
  State& state = *state_;
  if (!state.scope) co_return;
  try {
    state.stop();
  } catch (...) {
    state.fail(std::current_exception());
  }
  state.scope->cancel(CancelReason::kShutdown);
  co_await state.scope->join();
}

const Controller& Orchestrator::controller() const { return state_->controller; }

}  // namespace stoker
