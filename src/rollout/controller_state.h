#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rollout/controller.h"
#include "rollout/depth_finder.h"

namespace stoker {

// The inside of the controller: controller.cc takes events in, controller_decide.cc decides.
struct Controller::State {
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

  explicit State(const ControllerOptions& given) : options(given) {
    if (options.adaptive_depth) finder.emplace(options.max_ahead, options.groups_per_batch);
  }

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

  void observe(const RunEvent& event);
  void find_depth();
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
    return std::min<int64_t>(depth(), options.max_staleness);
  }
  int32_t depth() const { return finder ? finder->depth() : options.max_ahead; }
  // Groups that may have been dispatched in all, those dropped not counted.
  int64_t groups_allowed() const {
    return std::min(depth() + served_batches + 1, batch_limit()) * options.groups_per_batch +
           options.extra_groups;
  }
  bool debt_allows() const { return trained - served <= most_debt(); }
  bool group_fits() const { return running + options.group_size <= options.max_concurrent_episodes; }
  int64_t batch_limit() const { return std::max<int64_t>(0, options.total_steps - batches_before); }
  void start_episode(const EpisodeId& id, int64_t delay = 0) {
    ++running;
    decisions.push_back({.kind = DecisionKind::kStartEpisode, .episode = id, .delay = delay});
  }
  int64_t backoff_before(uint32_t attempt) const;

  ControllerOptions options;
  std::optional<DepthFinder> finder;  // with adaptive_depth
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

}  // namespace stoker
