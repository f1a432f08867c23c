#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "rollout/controller.h"
#include "rollout/event_log.h"

namespace stoker {
namespace {

// A random world around a controller: episodes that end in any order and way, a trainer, a publisher, events
// that come late or twice. It keeps its own books from the decisions alone and checks every promise against
// them.
class RandomWorld {
 public:
  RandomWorld(uint64_t seed, const ControllerOptions& options, bool may_stop)
      : options_(options),
        random_({.run_seed = seed, .purpose = RandomPurpose::kSchedule}),
        controller_(options),
        may_stop_(may_stop),
        depth_(controller_.depth()) {
    log_.push_back(event_log_header(options));
    failure_share_ = random_.below(2) == 0 ? 0 : random_.uniform() * 0.4;
  }

  void run() {
    handle({.kind = RunEventKind::kStarted});
    for (int i = 0; i < 100000 && !over_; ++i) advance();
    ASSERT_TRUE(over_) << "the run did not end";
    while (!running_.empty() && !::testing::Test::HasFatalFailure()) finish(*running_.begin());
    EXPECT_EQ(controller_.running_episodes(), 0);
  }

  const std::vector<Json>& log() const { return log_; }
  const ControllerOptions& options() const { return options_; }
  uint64_t consumed_groups() const { return consumed_.size(); }
  int64_t trained() const { return trained_; }
  int64_t depth_changes() const { return depth_changes_; }
  const std::string& finish_reason() const { return finish_reason_; }

 private:
  struct OpenGroup {
    int32_t scored = 0;
    int64_t oldest = std::numeric_limits<int64_t>::max() / 2;
    int64_t dispatch_version = 0;
    int64_t completed_at = 0;
  };

  void advance() {
    const uint64_t choice = random_.below(100);
    if (choice < 55 && !running_.empty()) return finish(any_running());
    if (choice < 60 && !ended_.empty()) return repeat_late_event();
    if (choice < 75 && publishing_ >= 0) return finish_publication();
    if (choice < 90) return trainer_turn();
    if (choice == 99 && may_stop_ && random_.below(20) == 0)
      return handle({.kind = RunEventKind::kStopRequested});
    if (running_.empty() && publishing_ < 0) trainer_turn();
  }

  const EpisodeId& any_running() { return *std::next(running_.begin(), random_.below(running_.size())); }

  void finish(EpisodeId id) {
    RunEvent event{.kind = RunEventKind::kEpisodeFinished, .episode = id};
    const double draw = random_.uniform();
    if (draw < failure_share_) {
      static const char* const kFailures[] = {"environment.timeout", "infrastructure.lost", "tool.timeout",
                                              "reward.exception", "limit.wall_clock"};
      event.failure = kFailures[random_.below(std::size(kFailures))];
    } else {
      event.scored = true;
      event.oldest_version = version_at_start_.at(id);
      if (draw > 0.98) event.failure = "limit.turns";
    }
    running_.erase(id);
    ended_.push_back(event);
    if (cancelled_.count(id) == 0 && event.scored) {
      auto& group = open_.at(id.task_ordinal);
      ++group.scored;
      group.oldest = std::min(group.oldest, event.oldest_version);
    }
    if (const auto group = open_.find(id.task_ordinal); group != open_.end() && !runs(id.task_ordinal)) {
      group->second.completed_at = time_ + 1;  // unless the controller tries it again
    }
    handle(event);
  }

  void repeat_late_event() {
    const int64_t late = controller_.late_events();
    handle(ended_[random_.below(ended_.size())]);
    EXPECT_EQ(controller_.late_events(), late + 1);
  }

  void finish_publication() {
    served_ = publishing_;
    publishing_ = -1;
    served_batches_ = trained_ == served_ ? batches_ : publishing_batches_;
    handle({.kind = RunEventKind::kPublished, .version = served_});
  }

  void trainer_turn() {
    if (training_) {
      training_ = false;
      if (random_.below(20) == 0) {  // nothing to train in it: no step
        ++batches_;
        if (trained_ == served_) served_batches_ = batches_;
        trainer_waiting_ = true;
        return handle({.kind = RunEventKind::kTrainerReady});
      }
      ++batches_;
      ++trained_;
      return handle({.kind = RunEventKind::kStepFinished, .version = trained_});
    }
    if (trainer_waiting_) return;
    trainer_waiting_ = true;
    handle({.kind = RunEventKind::kTrainerReady});
  }

  void handle(RunEvent event) {
    event.time = ++time_;
    if (options_.adaptive_depth)
      event.sampled_tokens = sampled_tokens_ += static_cast<int64_t>(random_.below(9));
    const std::vector<Decision> decisions = controller_.handle(event);
    log_.push_back(event_log_line(event, decisions));
    for (const Decision& decision : decisions) apply(decision);
    if (!over_) check_never_idle();
    if (!over_ && options_.stale_action == StaleAction::kCancel) {
      for (const auto& [ordinal, group] : open_) {
        if (runs(ordinal)) EXPECT_LE(trained_ - group.dispatch_version, options_.max_staleness);
      }
    }
    EXPECT_EQ(controller_.running_episodes(), static_cast<int32_t>(running_.size()));
  }

  void apply(const Decision& decision) {
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

  void started(const EpisodeId& id) {
    EXPECT_TRUE(running_.insert(id).second);
    EXPECT_LE(running_.size(), static_cast<size_t>(options_.max_concurrent_episodes));
    const bool refills = options_.failed_members == FailedMemberPolicy::kRefill;
    EXPECT_LT(id.attempt,
              static_cast<uint32_t>(options_.max_attempts + (refills ? options_.max_refills : 0)));
    version_at_start_[id] = served_;
    if (open_.emplace(id.task_ordinal, OpenGroup{.dispatch_version = served_}).second) {
      EXPECT_LE(trained_ - served_, most_debt());
      EXPECT_LE(static_cast<int64_t>(open_.size() + consumed_.size()),
                (depth_ + served_batches_ + 1) * options_.groups_per_batch);
      EXPECT_TRUE(ordinals_.insert(id.task_ordinal).second) << "an ordinal was dispatched twice";
    }
  }

  void consumed(const Decision& decision) {
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
    if (options_.max_ahead == 0) EXPECT_TRUE(open_.empty()) << "a synchronous batch leaves nothing behind";
    for (const auto& [ordinal, group] : open_) check_left_behind(ordinal, group, decision, last_completion);
  }

  bool runs(uint64_t ordinal) const {
    return std::any_of(running_.begin(), running_.end(),
                       [&](const EpisodeId& id) { return id.task_ordinal == ordinal; });
  }

  int64_t most_debt() const {
    if (options_.update_boundary == UpdateBoundary::kBarrier) return 0;
    return std::min<int64_t>(depth_, options_.max_staleness);
  }

  // When admission allows another group, it has been started.
  void check_never_idle() const {
    if (trained_ - served_ > most_debt()) return;
    const int64_t batches = std::min(depth_ + served_batches_ + 1, options_.total_steps);
    const bool allowed =
        static_cast<int64_t>(open_.size() + consumed_.size()) < batches * options_.groups_per_batch;
    const bool fits =
        static_cast<int32_t>(running_.size()) + options_.group_size <= options_.max_concurrent_episodes;
    EXPECT_FALSE(allowed && fits && ordinals_.size() < options_.end_ordinal) << "a slot is idle";
  }

  // A group that was not taken into the batch.
  void check_left_behind(uint64_t ordinal, const OpenGroup& group, const Decision& batch,
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

  ControllerOptions options_;
  RandomStream random_;
  Controller controller_;
  bool may_stop_;
  int32_t depth_;
  int64_t depth_changes_ = 0, sampled_tokens_ = 0;
  double failure_share_ = 0;
  std::vector<Json> log_;
  int64_t time_ = 0;

  std::set<EpisodeId> running_, cancelled_;
  std::map<EpisodeId, int64_t> version_at_start_;
  std::vector<RunEvent> ended_;
  std::map<uint64_t, OpenGroup> open_;
  std::set<uint64_t> ordinals_, consumed_, dropped_;
  int64_t trained_ = 0, served_ = 0, publishing_ = -1, batches_ = 0;
  int64_t publishing_batches_ = 0, served_batches_ = 0;
  bool training_ = false, trainer_waiting_ = false, over_ = false;
  std::string finish_reason_;
};

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
  return options;
}

TEST(ControllerProperty, RandomRunsKeepEveryPromiseAndReplay) {
  int64_t events = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world(seed, random_options(seed), seed % 5 == 0);
    world.run();
    const ReplayReport once = replay_event_log(world.log());
    EXPECT_EQ(once.difference, std::nullopt);
    EXPECT_EQ(once.events, static_cast<int64_t>(world.log().size()) - 1);
    events += once.events;
    if (HasFailure()) return;
  }
  EXPECT_GT(events, 100000);
}

TEST(ControllerProperty, ReplayFromTextGivesTheSameDigest) {
  std::set<uint64_t> digests;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomWorld world(seed, random_options(seed), seed % 3 == 0);
    world.run();
    std::vector<Json> read;
    for (const Json& line : world.log()) read.push_back(Json::parse(line.dump()));
    EXPECT_EQ(replay_event_log(read).digest, replay_event_log(world.log()).digest);
    digests.insert(replay_event_log(read).digest);
  }
  EXPECT_GT(digests.size(), 150u) << "different runs have different digests";
}

TEST(ControllerProperty, RunsThatAreNotStoppedTrainEveryStep) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ControllerOptions options = random_options(seed);
    options.end_ordinal = std::numeric_limits<uint64_t>::max();
    RandomWorld world(seed, options, false);
    world.run();
    EXPECT_EQ(world.finish_reason(), "all steps are done");
    EXPECT_EQ(world.consumed_groups(), static_cast<uint64_t>(options.total_steps * options.groups_per_batch));
  }
}

TEST(ControllerProperty, AdaptiveRunsKeepEveryPromiseAndReplay) {
  int64_t changes = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ControllerOptions options = random_options(seed);
    options.total_steps += 60;
    options.max_ahead += 1;
    options.adaptive_depth = true;
    options.end_ordinal = std::numeric_limits<uint64_t>::max();
    RandomWorld world(seed, options, seed % 5 == 0);
    world.run();
    EXPECT_EQ(replay_event_log(world.log()).difference, std::nullopt);
    changes += world.depth_changes();
    if (HasFailure()) return;
  }
  EXPECT_GT(changes, 40);
}

TEST(ControllerProperty, AResumedRunGoesOnInTheSameLog) {
  RandomWorld first(3, random_options(3), false);
  RandomWorld second(4, random_options(4), false);
  first.run();
  second.run();
  std::vector<Json> log = first.log();
  log.insert(log.end(), second.log().begin(), second.log().end());
  EXPECT_EQ(replay_event_log(log).difference, std::nullopt);
  EXPECT_EQ(replay_event_log(log).events,
            replay_event_log(first.log()).events + replay_event_log(second.log()).events);
}

TEST(ControllerProperty, AnEventLogThatWasChangedIsFound) {
  RandomWorld world(7, random_options(7), false);
  world.run();
  std::vector<Json> log = world.log();
  ASSERT_GT(log.size(), 2u);
  log[1].set("decisions", Json::array());
  const ReplayReport report = replay_event_log(log);
  ASSERT_TRUE(report.difference.has_value());
  EXPECT_EQ(report.difference->rfind("line 2, started: logged []", 0), 0u) << *report.difference;
}

}  // namespace
}  // namespace stoker
