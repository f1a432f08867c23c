#include "rollout/controller.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "rollout/controller_check.h"
#include "rollout/controller_state.h"

namespace stoker {

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
  find_depth();
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
  find_depth();
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

Controller::Controller(const ControllerOptions& options) : state_(std::make_unique<State>(options)) {
  check(options);
}
Controller::~Controller() = default;

std::vector<Decision> Controller::handle(const RunEvent& event) {
  State& state = *state_;
  if (event.kind != RunEventKind::kStarted && !state.started) {
    throw internal_error("The controller was given an event before the run was started.");
  }
  state.observe(event);
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
int32_t Controller::depth() const { return state_->depth(); }
int32_t Controller::found_depth() const { return state_->finder ? state_->finder->found() : state_->depth(); }
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
