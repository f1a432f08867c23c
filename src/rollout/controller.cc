#include "rollout/controller.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "rollout/controller_check.h"

namespace stoker {
namespace {

enum class MemberState { kRunning, kScored, kFailed };

struct Member {
  uint32_t attempt = 0;
  MemberState state = MemberState::kRunning;
};

struct OpenGroup {
  int64_t dispatch_version = 0;
  std::vector<Member> members;  // by sample
  int32_t running = 0;
  int32_t scored = 0;
  int32_t failed_attempts = 0;
  int32_t refills = 0;
  int64_t oldest_version = -1;  // of a token of a scored member
};

}  // namespace

struct Controller::State {
  explicit State(const ControllerOptions& given) : options(given) {}

  void start(const RunEvent& event);
  void finish_episode(const RunEvent& event);
  void settle_member(uint64_t ordinal, OpenGroup& group, Member& member, const RunEvent& event);
  void settle_failure(uint64_t ordinal, OpenGroup& group, Member& member, const RunEvent& event);
  bool takes_another_attempt(OpenGroup& group, const Member& member, const std::string& failure);
  void end_group(uint64_t ordinal, const OpenGroup& group);
  void trainer_ready();
  void finish_step(const RunEvent& event);
  void skip_step();
  void finish_publication(const RunEvent& event);
  void cancel_members(uint64_t ordinal, OpenGroup& group);
  void stop(const std::string& reason);

  void decide();
  void drop(uint64_t ordinal, const std::string& reason, DecisionKind kind = DecisionKind::kDropGroup);
  void drop_stale();
  bool over_cap(const OpenGroup& group) const;
  bool must_wait_for_stale() const;
  std::vector<uint64_t> next_batch() const;
  void take_over(uint64_t ordinal);
  void publish();
  void consume();
  void admit();
  void finish_when_over();

  std::optional<uint64_t> take_ordinal();
  bool tasks_left() const { return !reopened.empty() || next_ordinal < options.end_ordinal; }
  // An owed publication waits for the episodes that run.
  bool at_barrier() const {
    return options.update_boundary == UpdateBoundary::kBarrier && trained > served && running > 0;
  }
  // Trained less served version under which episodes may start.
  int64_t most_debt() const {
    if (options.update_boundary == UpdateBoundary::kBarrier) return 0;
    return std::min<int64_t>(options.max_ahead, options.max_staleness);
  }
  int64_t batch_limit() const { return std::max<int64_t>(0, options.total_steps - batches_before); }
  void start_episode(const EpisodeId& id, int64_t delay = 0) {
    ++running;
    decisions.push_back({.kind = DecisionKind::kStartEpisode, .episode = id, .delay = delay});
  }
  int64_t backoff_before(uint32_t attempt) const;

  ControllerOptions options;
  bool started = false;
  bool over = false;  // kFinish or kGiveUp was decided
  bool trainer_waiting = false;
  bool batch_in_training = false;
  bool version_moved = false;         // any group may be over the cap
  std::vector<uint64_t> newly_ready;  // these may be

  int64_t batches_before = 0;         // trained before this start
  int64_t trained = 0;                // version after the last step
  int64_t served = 0;                 // version that the engine serves
  std::optional<int64_t> publishing;  // version that is under way
  int64_t publishing_batches = 0;     // trained_batches when it was decided
  int64_t trained_batches = 0;        // of this run
  int64_t served_batches = 0;         // of those: the engine serves what they led to
  int64_t dispatched = 0;             // groups, less those dropped

  uint64_t next_ordinal = 0;
  std::set<uint64_t> reopened;  // of a resumed run: before next_ordinal, to be dispatched first
  std::map<uint64_t, OpenGroup> groups;
  std::set<uint64_t> ready;
  std::vector<uint64_t> completed;  // the ready ones in the order in which they became so
  bool waiting_for_stale = false;
  std::set<EpisodeId> cancelled;  // told to stop, not ended: each still holds a slot
  int32_t running = 0;

  int32_t consecutive_drops = 0;
  std::string last_failure;
  int64_t dropped = 0;
  int64_t stale = 0;
  int64_t set_aside = 0;
  int64_t retried = 0;
  int64_t refilled = 0;
  int64_t late = 0;
  std::vector<Decision> decisions;
};

void Controller::State::start(const RunEvent& event) {
  if (started) throw internal_error("The controller was started twice.");
  started = true;
  trained = served = event.version;
  batches_before = event.trained_batches;
  next_ordinal = event.first_ordinal;
  for (uint64_t ordinal : event.open_ordinals) {
    if (ordinal >= next_ordinal) {
      throw internal_error(
          fmt::format("The controller was started with the open ordinal {}, which is not below {}.", ordinal,
                      next_ordinal));
    }
    reopened.insert(ordinal);
  }
}

void Controller::State::finish_episode(const RunEvent& event) {
  if (cancelled.erase(event.episode) != 0) {
    --running;
    ++late;
    return;
  }
  const auto found = groups.find(event.episode.task_ordinal);
  if (found == groups.end() || event.episode.sample >= found->second.members.size()) {
    ++late;
    return;
  }
  Member& member = found->second.members[event.episode.sample];
  if (member.state != MemberState::kRunning || member.attempt != event.episode.attempt) {
    ++late;
    return;
  }
  --running;
  --found->second.running;
  settle_member(found->first, found->second, member, event);
}

// The running attempt of a member has ended: scored, again, or failed for good.
void Controller::State::settle_member(uint64_t ordinal, OpenGroup& group, Member& member,
                                      const RunEvent& event) {
  if (!event.scored) return settle_failure(ordinal, group, member, event);
  member.state = MemberState::kScored;
  ++group.scored;
  if (event.oldest_version >= 0) {
    group.oldest_version = group.oldest_version < 0 ? event.oldest_version
                                                    : std::min(group.oldest_version, event.oldest_version);
  }
  end_group(ordinal, group);
}

void Controller::State::settle_failure(uint64_t ordinal, OpenGroup& group, Member& member,
                                       const RunEvent& event) {
  last_failure = event.failure;
  ++group.failed_attempts;
  if (group.scored == 0 && group.failed_attempts >= options.max_task_failures) {
    member.state = MemberState::kFailed;
    ++consecutive_drops;
    ++set_aside;
    return drop(ordinal,
                fmt::format("{} attempts failed and none was scored, the last with {}", group.failed_attempts,
                            last_failure),
                DecisionKind::kSetAside);
  }
  if (takes_another_attempt(group, member, event.failure)) {
    ++member.attempt;
    ++group.running;
    start_episode({.task_ordinal = ordinal, .sample = event.episode.sample, .attempt = member.attempt},
                  backoff_before(member.attempt));
    return;
  }
  member.state = MemberState::kFailed;
  if (options.failed_members == FailedMemberPolicy::kDrop) {
    ++consecutive_drops;
    return drop(ordinal, "failed member: " + last_failure);
  }
  end_group(ordinal, group);
}

// Whether an attempt follows the one of the member that failed: a retry, or a refill of its place.
bool Controller::State::takes_another_attempt(OpenGroup& group, const Member& member,
                                              const std::string& failure) {
  if (options.failures.retries(failure) && member.attempt + 1 < static_cast<uint32_t>(options.max_attempts)) {
    ++retried;
    return true;
  }
  if (options.failed_members != FailedMemberPolicy::kRefill || group.refills >= options.max_refills)
    return false;
  ++group.refills;
  ++refilled;
  return true;
}

// ns.
int64_t Controller::State::backoff_before(uint32_t attempt) const {
  const double doubled =
      std::ldexp(options.retry_backoff_seconds, std::min(static_cast<int>(attempt) - 1, 30));
  return std::llround(1e9 * std::min(doubled, kMostBackoffSeconds));
}

// Completes the group, or drops it, once none of its members runs.
void Controller::State::end_group(uint64_t ordinal, const OpenGroup& group) {
  if (group.running > 0) return;
  if (group.scored < options.min_scored) {
    ++consecutive_drops;
    return drop(ordinal, group.scored == 0 ? "no scored member: " + last_failure
                                           : fmt::format("only {} of {} members scored: {}", group.scored,
                                                         group.members.size(), last_failure));
  }
  consecutive_drops = 0;
  newly_ready.push_back(ordinal);
  ready.insert(ordinal);
  completed.push_back(ordinal);
}

void Controller::State::trainer_ready() {
  if (batch_in_training) skip_step();  // nobody said how it ended
  trainer_waiting = true;
}

void Controller::State::skip_step() {
  if (!batch_in_training) throw internal_error("A step was skipped of which the controller gave no batch.");
  batch_in_training = false;
  ++trained_batches;
  if (trained <= served) served_batches = trained_batches;
}

void Controller::State::finish_step(const RunEvent& event) {
  if (!batch_in_training) throw internal_error("A step was finished of which the controller gave no batch.");
  if (event.version < trained) {
    throw internal_error(fmt::format("A step finished with version {}, below the version {} before it.",
                                     event.version, trained));
  }
  batch_in_training = false;
  ++trained_batches;
  trained = event.version;
  if (trained <= served) served_batches = trained_batches;
  version_moved = true;
}

void Controller::State::finish_publication(const RunEvent& event) {
  if (publishing != event.version) {
    throw internal_error(
        fmt::format("Version {} was published without the controller's decision.", event.version));
  }
  publishing.reset();
  served = event.version;
  served_batches = trained <= served ? trained_batches : publishing_batches;
}

// They are over for their group, and hold their slots until they have ended.
void Controller::State::cancel_members(uint64_t ordinal, OpenGroup& group) {
  for (uint32_t sample = 0; sample < group.members.size(); ++sample) {
    Member& member = group.members[sample];
    if (member.state != MemberState::kRunning) continue;
    member.state = MemberState::kFailed;
    --group.running;
    const EpisodeId id{.task_ordinal = ordinal, .sample = sample, .attempt = member.attempt};
    cancelled.insert(id);
    decisions.push_back({.kind = DecisionKind::kCancelEpisode, .episode = id});
  }
}

// Cancels what runs and ends the decisions of the run.
void Controller::State::stop(const std::string& reason) {
  if (over) return;
  for (auto& [ordinal, group] : groups) cancel_members(ordinal, group);
  over = true;
  decisions.push_back({.kind = DecisionKind::kFinish, .reason = reason});
}

void Controller::State::drop(uint64_t ordinal, const std::string& reason, DecisionKind kind) {
  decisions.push_back({.kind = kind, .groups = {ordinal}, .reason = reason});
  cancel_members(ordinal, groups.at(ordinal));
  take_over(ordinal);
  --dispatched;
  ++dropped;
}

// The group is open no more.
void Controller::State::take_over(uint64_t ordinal) {
  groups.erase(ordinal);
  if (ready.erase(ordinal) != 0) std::erase(completed, ordinal);
}

// A running group's oldest token is not known; it is not older than its dispatch.
bool Controller::State::over_cap(const OpenGroup& group) const {
  if (group.running > 0) {
    return options.stale_action == StaleAction::kCancel &&
           trained - group.dispatch_version > options.max_staleness;
  }
  return group.oldest_version >= 0 && trained - group.oldest_version > options.max_staleness;
}

// Lag only grows: a group over the cap can never be trained, and its slots are free at once.
void Controller::State::drop_stale() {
  std::vector<uint64_t> too_old = std::exchange(newly_ready, {});
  if (std::exchange(version_moved, false)) {
    too_old.clear();
    for (const auto& [ordinal, group] : groups) too_old.push_back(ordinal);
  }
  if (options.stale_action == StaleAction::kMask) return;
  std::erase_if(too_old, [&](uint64_t ordinal) { return !over_cap(groups.at(ordinal)); });
  for (uint64_t ordinal : too_old) {
    const OpenGroup& group = groups.at(ordinal);
    ++stale;
    drop(ordinal,
         group.running > 0
             ? fmt::format("stale: it runs since version {}, training is at {}, the bound is {}",
                           group.dispatch_version, trained, options.max_staleness)
             : fmt::format("stale: its oldest token is of version {}, training is at {}, the bound is {}",
                           group.oldest_version, trained, options.max_staleness));
  }
}

bool Controller::State::must_wait_for_stale() const {
  if (options.stale_action != StaleAction::kWait) return false;
  return std::ranges::any_of(groups, [&](const auto& item) {
    return item.second.running > 0 && trained + 1 - item.second.dispatch_version > options.max_staleness;
  });
}

// The ordinals of the next batch, ascending; fewer than a batch, or none, when it cannot be formed yet.
std::vector<uint64_t> Controller::State::next_batch() const {
  const auto wanted = static_cast<size_t>(options.groups_per_batch);
  std::vector<uint64_t> batch;
  switch (options.batch_order) {
    case BatchOrder::kOldestFirst:
      for (uint64_t ordinal : ready) {
        if (batch.size() == wanted) break;
        batch.push_back(ordinal);
      }
      return batch;
    case BatchOrder::kCompletion:
      batch.assign(completed.begin(),
                   completed.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, completed.size())));
      std::sort(batch.begin(), batch.end());
      return batch;
    case BatchOrder::kStrict:
      for (const auto& [ordinal, group] : groups) {
        if (batch.size() == wanted || group.running > 0) break;
        batch.push_back(ordinal);
      }
      return batch;
  }
  return batch;
}

void Controller::State::publish() {
  if (publishing || trained <= served || at_barrier()) return;
  publishing = trained;
  publishing_batches = trained_batches;
  decisions.push_back({.kind = DecisionKind::kPublish, .version = trained});
}

void Controller::State::consume() {
  if (!trainer_waiting || trained_batches >= batch_limit()) return;
  const auto wanted = static_cast<size_t>(options.groups_per_batch);
  const bool all_there = !tasks_left() && ready.size() == groups.size();
  if (ready.size() < wanted && !all_there) return;
  std::vector<uint64_t> batch = next_batch();
  if (batch.size() < wanted && !(all_there && !batch.empty())) return;
  waiting_for_stale = must_wait_for_stale();
  if (waiting_for_stale) return;
  for (uint64_t ordinal : batch) take_over(ordinal);
  Decision decision{.kind = DecisionKind::kConsumeBatch, .groups = std::move(batch), .version = trained};
  trainer_waiting = false;
  batch_in_training = true;
  decisions.push_back(std::move(decision));
}

std::optional<uint64_t> Controller::State::take_ordinal() {
  if (!reopened.empty()) return reopened.extract(reopened.begin()).value();
  if (next_ordinal < options.end_ordinal) return next_ordinal++;
  return std::nullopt;
}

void Controller::State::admit() {
  if (trained - served > most_debt()) return;
  const int64_t batches = std::min(options.max_ahead + served_batches + 1, batch_limit());
  const int64_t groups_allowed = batches * options.groups_per_batch;
  while (dispatched < groups_allowed && running + options.group_size <= options.max_concurrent_episodes) {
    const std::optional<uint64_t> ordinal = take_ordinal();
    if (!ordinal) return;
    ++dispatched;
    OpenGroup& group = groups[*ordinal];
    group.dispatch_version = served;
    group.members.resize(static_cast<size_t>(options.group_size));
    group.running = options.group_size;
    for (uint32_t sample = 0; sample < group.members.size(); ++sample) {
      start_episode({.task_ordinal = *ordinal, .sample = sample});
    }
  }
}

void Controller::State::finish_when_over() {
  const bool steps_done = trained_batches >= batch_limit();
  if (steps_done && trained <= served) return stop("all steps are done");
  if (!steps_done && !batch_in_training && !tasks_left() && groups.empty() && trained <= served) {
    return stop("no tasks are left");
  }
}

void Controller::State::decide() {
  if (consecutive_drops >= options.max_consecutive_drops) {
    const std::string reason = fmt::format("{} groups in a row had to be dropped; the last failure was {}",
                                           consecutive_drops, last_failure);
    stop(reason);
    decisions.back().kind = DecisionKind::kGiveUp;
    return;
  }
  drop_stale();
  publish();
  consume();
  admit();
  finish_when_over();
}

Controller::Controller(const ControllerOptions& options) : state_(std::make_unique<State>(options)) {
  check(options);
}
Controller::~Controller() = default;

std::vector<Decision> Controller::handle(const RunEvent& event) {
  State& state = *state_;
  if (event.kind != RunEventKind::kStarted && !state.started) {
    throw internal_error("The controller was given an event before the run was started.");
  }
  switch (event.kind) {
    case RunEventKind::kStarted:
      state.start(event);
      break;
    case RunEventKind::kEpisodeFinished:
      state.finish_episode(event);
      break;
    case RunEventKind::kTrainerReady:
      state.trainer_ready();
      break;
    case RunEventKind::kStepFinished:
      state.finish_step(event);
      break;
    case RunEventKind::kStepSkipped:
      state.skip_step();
      break;
    case RunEventKind::kPublished:
      state.finish_publication(event);
      break;
    case RunEventKind::kStopRequested:
      state.stop("a stop was requested");
      break;
  }
  if (!state.over) state.decide();
  return std::exchange(state.decisions, {});
}

uint64_t Controller::next_ordinal() const { return state_->next_ordinal; }

std::vector<uint64_t> Controller::open_ordinals() const {
  std::vector<uint64_t> ordinals(state_->reopened.begin(), state_->reopened.end());
  for (const auto& [ordinal, group] : state_->groups) ordinals.push_back(ordinal);
  std::sort(ordinals.begin(), ordinals.end());
  return ordinals;
}

int64_t Controller::trained_version() const { return state_->trained; }
int64_t Controller::served_version() const { return state_->served; }
bool Controller::waits_at_barrier() const { return !state_->over && state_->at_barrier(); }
int32_t Controller::running_episodes() const { return state_->running; }
int32_t Controller::ready_groups() const { return static_cast<int32_t>(state_->ready.size()); }
int32_t Controller::open_groups() const { return static_cast<int32_t>(state_->groups.size()); }
int64_t Controller::dropped_groups() const { return state_->dropped; }
int64_t Controller::stale_groups() const { return state_->stale; }
bool Controller::waiting_for_stale() const { return state_->waiting_for_stale; }
int64_t Controller::set_aside_tasks() const { return state_->set_aside; }
int64_t Controller::retried_episodes() const { return state_->retried; }
int64_t Controller::refilled_episodes() const { return state_->refilled; }
int64_t Controller::late_events() const { return state_->late; }

}  // namespace stoker
