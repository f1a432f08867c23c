#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "rollout/controller_state.h"

namespace stoker {

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
    if (finder) finder->group_stale();
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
  for (uint64_t ordinal : batch) {
    if (finder && over_cap(groups.at(ordinal))) finder->group_stale();  // its old tokens are masked
    take_over(ordinal);
  }
  if (finder) finder->batch_taken(static_cast<int64_t>(ready.size()));
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
  if (!debt_allows()) return;
  while (dispatched < groups_allowed() && group_fits()) {
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

// Before the event changes anything: what held until now.
void Controller::State::observe(const RunEvent& event) {
  if (!finder) return;
  const bool more_to_come = depth() + served_batches + 1 < batch_limit() && tasks_left();
  const int64_t unused = groups_allowed() - dispatched;
  finder->observe({.time = event.time,
                   .sampled_tokens = event.sampled_tokens,
                   .trainer_waits = trainer_waiting && !waiting_for_stale,
                   .group_blocked = more_to_come && debt_allows() && group_fits() && unused <= 0,
                   .unused_groups = unused});
}

void Controller::State::find_depth() {
  // Once everything is dispatched, depth has no effect that could be measured.
  if (!finder || over || depth() + trained_batches + 1 >= batch_limit()) return;
  std::optional<std::string> reason = finder->step_ended();
  if (!reason) return;
  decisions.push_back(
      {.kind = DecisionKind::kSetDepth, .reason = *std::move(reason), .depth = finder->depth()});
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

}  // namespace stoker
