#include "rollout/testing/decision_books.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/random.h"

namespace stoker::testing {

DecisionBooks::DecisionBooks(const ControllerOptions& options)
    : options_(options), depth_(options.adaptive_depth ? 1 : options.max_ahead) {}

void DecisionBooks::check(const RunEvent& event, const std::vector<Decision>& decisions) {
  ++events_;
  note(event);
  for (const Decision& decision : decisions) apply(decision);
  if (over_) return;
  check_never_idle();
  if (options_.stale_action != StaleAction::kCancel) return;
  for (const auto& [ordinal, group] : open_) {
    if (runs(ordinal)) EXPECT_LE(trained_ - group.dispatch_version, options_.max_staleness);
  }
}

// What the event says of the world, before anything is decided.
void DecisionBooks::note(const RunEvent& event) {
  switch (event.kind) {
    case RunEventKind::kStarted:
    case RunEventKind::kStopRequested:
      return;
    case RunEventKind::kEpisodeFinished:
      return finish(event);
    case RunEventKind::kTrainerReady:
      if (training_) end_step();
      trainer_waiting_ = true;
      return;
    case RunEventKind::kStepSkipped:
      return end_step();
    case RunEventKind::kStepFinished:
      trained_ = event.version;
      return end_step();
    case RunEventKind::kPublished:
      EXPECT_EQ(event.version, publishing_);
      served_ = event.version;
      publishing_ = -1;
      served_batches_ = trained_ == served_ ? batches_ : publishing_batches_;
      return;
  }
}

void DecisionBooks::end_step() {
  training_ = false;
  ++batches_;
  if (trained_ == served_) served_batches_ = batches_;
}

void DecisionBooks::finish(const RunEvent& event) {
  if (running_.erase(event.episode) == 0) return;  // late
  const auto group = open_.find(event.episode.task_ordinal);
  if (group == open_.end()) return;
  if (cancelled_.count(event.episode) == 0 && event.scored) {
    ++group->second.scored;
    if (event.oldest_version >= 0)
      group->second.oldest = std::min(group->second.oldest, event.oldest_version);
  }
  // Unless the controller tries it again.
  if (!runs(event.episode.task_ordinal)) group->second.completed_at = events_;
}

void DecisionBooks::apply(const Decision& decision) {
  switch (decision.kind) {
    case DecisionKind::kStartEpisode:
      return started(decision.episode);
    case DecisionKind::kCancelEpisode:
      EXPECT_EQ(running_.count(decision.episode), 1u);
      EXPECT_TRUE(cancelled_.insert(decision.episode).second);
      return;
    case DecisionKind::kConsumeBatch:
      return consumed(decision);
    case DecisionKind::kSetAside:
      EXPECT_EQ(open_.at(decision.groups.at(0)).scored, 0);
      [[fallthrough]];
    case DecisionKind::kDropGroup:
      EXPECT_EQ(open_.erase(decision.groups.at(0)), 1u);
      EXPECT_TRUE(dropped_.insert(decision.groups.at(0)).second);
      return;
    case DecisionKind::kPublish:
      EXPECT_EQ(publishing_, -1);
      EXPECT_EQ(decision.version, trained_);
      if (options_.update_boundary == UpdateBoundary::kBarrier) EXPECT_TRUE(running_.empty());
      publishing_ = decision.version;
      publishing_batches_ = batches_;
      return;
    case DecisionKind::kSetDepth:
      EXPECT_TRUE(options_.adaptive_depth);
      EXPECT_EQ(std::abs(decision.depth - depth_), 1);
      EXPECT_GE(decision.depth, 1);
      EXPECT_LE(decision.depth, options_.max_ahead);
      depth_ = decision.depth;
      ++depth_changes_;
      return;
    case DecisionKind::kFinish:
    case DecisionKind::kGiveUp:
      EXPECT_FALSE(over_);
      over_ = true;
      finish_reason_ = decision.reason;
  }
}

void DecisionBooks::started(const EpisodeId& id) {
  EXPECT_TRUE(running_.insert(id).second);
  EXPECT_LE(running_.size(), static_cast<size_t>(options_.max_concurrent_episodes));
  const bool refills = options_.failed_members == FailedMemberPolicy::kRefill;
  EXPECT_LT(id.attempt, static_cast<uint32_t>(options_.max_attempts + (refills ? options_.max_refills : 0)));
  version_at_start_[id] = served_;
  if (open_.emplace(id.task_ordinal, OpenGroup{.dispatch_version = served_}).second) {
    EXPECT_LE(trained_ - served_, most_debt());
    EXPECT_LE(static_cast<int64_t>(open_.size() + consumed_.size()),
              (depth_ + served_batches_ + 1) * options_.groups_per_batch + options_.extra_groups);
    EXPECT_TRUE(ordinals_.insert(id.task_ordinal).second) << "an ordinal was dispatched twice";
  }
}

void DecisionBooks::consumed(const Decision& decision) {
  EXPECT_TRUE(trainer_waiting_);
  trainer_waiting_ = false;
  training_ = true;
  EXPECT_EQ(decision.version, trained_);
  EXPECT_TRUE(std::is_sorted(decision.groups.begin(), decision.groups.end()));
  const bool source_ended = ordinals_.size() == options_.end_ordinal;
  if (!source_ended) EXPECT_EQ(decision.groups.size(), static_cast<size_t>(options_.groups_per_batch));
  int64_t last_completion = 0;
  for (uint64_t ordinal : decision.groups) {
    const auto found = open_.find(ordinal);
    ASSERT_NE(found, open_.end());
    EXPECT_GE(found->second.scored, options_.min_scored);
    if (options_.stale_action != StaleAction::kMask) {
      EXPECT_LE(trained_ - found->second.oldest, options_.max_staleness);
    }
    last_completion = std::max(last_completion, found->second.completed_at);
    open_.erase(found);
    EXPECT_TRUE(consumed_.insert(ordinal).second) << "a group was trained twice";
  }
  if (options_.max_ahead == 0) {
    EXPECT_LE(open_.size(), static_cast<size_t>(options_.extra_groups))
        << "a synchronous batch leaves nothing behind but the extra groups";
  }
  for (const auto& [ordinal, group] : open_) check_left_behind(ordinal, group, decision, last_completion);
}

bool DecisionBooks::runs(uint64_t ordinal) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const EpisodeId& id) { return id.task_ordinal == ordinal; });
}

int64_t DecisionBooks::most_debt() const {
  if (options_.update_boundary == UpdateBoundary::kBarrier) return 0;
  return std::min<int64_t>(depth_, options_.max_staleness);
}

// When admission allows another group, it has been started.
void DecisionBooks::check_never_idle() const {
  if (trained_ - served_ > most_debt()) return;
  const int64_t batches = std::min(depth_ + served_batches_ + 1, options_.total_steps);
  const bool allowed = static_cast<int64_t>(open_.size() + consumed_.size()) <
                       batches * options_.groups_per_batch + options_.extra_groups;
  const bool fits =
      static_cast<int32_t>(running_.size()) + options_.group_size <= options_.max_concurrent_episodes;
  EXPECT_FALSE(allowed && fits && ordinals_.size() < options_.end_ordinal) << "a slot is idle";
}

// A group that was not taken into the batch.
void DecisionBooks::check_left_behind(uint64_t ordinal, const OpenGroup& group, const Decision& batch,
                                      int64_t last_completion) const {
  if (runs(ordinal)) {
    if (options_.stale_action == StaleAction::kWait) {
      EXPECT_LE(trained_ + 1 - group.dispatch_version, options_.max_staleness);
    }
    if (options_.batch_order == BatchOrder::kStrict) EXPECT_GT(ordinal, batch.groups.back());
    return;
  }
  if (options_.batch_order == BatchOrder::kCompletion) {
    EXPECT_GE(group.completed_at, last_completion);
  } else {
    EXPECT_GT(ordinal, batch.groups.back());
  }
}

ControllerOptions random_options(uint64_t seed) {
  RandomStream random({.run_seed = seed, .purpose = RandomPurpose::kData});
  ControllerOptions options;
  options.total_steps = 1 + static_cast<int64_t>(random.below(12));
  options.groups_per_batch = 1 + static_cast<int32_t>(random.below(4));
  options.group_size = 1 + static_cast<int32_t>(random.below(4));
  options.max_concurrent_episodes = options.group_size + static_cast<int32_t>(random.below(20));
  options.max_ahead = static_cast<int32_t>(random.below(4));
  options.max_staleness = random.below(2) == 0 ? 1 << 20 : static_cast<int64_t>(random.below(3));
  options.stale_action = static_cast<StaleAction>(random.below(4));
  options.batch_order = static_cast<BatchOrder>(random.below(3));
  options.update_boundary = static_cast<UpdateBoundary>(random.below(3));
  options.max_attempts = 1 + static_cast<int32_t>(random.below(3));
  options.failed_members = static_cast<FailedMemberPolicy>(random.below(3));
  options.max_refills = static_cast<int32_t>(random.below(4));
  options.min_scored = 1 + static_cast<int32_t>(random.below(static_cast<uint64_t>(options.group_size)));
  options.max_task_failures = 1 + static_cast<int32_t>(random.below(8));
  options.retry_backoff_seconds = static_cast<double>(random.below(3));
  for (FailureAction* action : {&options.failures.tool, &options.failures.environment,
                                &options.failures.infrastructure, &options.failures.reward}) {
    *action = random.below(4) == 0 ? FailureAction::kExclude : FailureAction::kRetry;
  }
  if (random.below(4) == 0) options.end_ordinal = 1 + random.below(20);
  const bool drops_extra =
      options.batch_order == BatchOrder::kStrict && options.max_ahead == 0 && options.max_staleness == 0;
  if (!drops_extra && random.below(4) == 0) options.extra_groups = 1 + static_cast<int32_t>(random.below(4));
  return options;
}

}  // namespace stoker::testing
