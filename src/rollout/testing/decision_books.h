#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rollout/controller.h"

namespace stoker::testing {

// Books of a run, kept from its events and decisions alone, which check every promise of the controller:
// admission, order, the cap, exactly-once, no idle slot, no episode that is lost. What is broken becomes a
// failure of the test that runs.
class DecisionBooks {
 public:
  explicit DecisionBooks(const ControllerOptions& options);

  // In order, of a run that was not resumed.
  void check(const RunEvent& event, const std::vector<Decision>& decisions);

  bool over() const { return over_; }  // the controller decided so
  const std::string& finish_reason() const { return finish_reason_; }
  const std::set<EpisodeId>& running() const {
    return running_;
  }  // cancelled ones that have not ended included
  // Of an episode that was started: the version that was served then.
  int64_t version_at_start(const EpisodeId& id) const { return version_at_start_.at(id); }
  uint64_t consumed_groups() const { return consumed_.size(); }
  uint64_t dropped_groups() const { return dropped_.size(); }
  uint64_t open_groups() const { return open_.size(); }
  uint64_t dispatched_groups() const { return ordinals_.size(); }
  int64_t trained() const { return trained_; }
  int64_t served() const { return served_; }
  int64_t publishing() const { return publishing_; }  // -1: nothing is published
  bool training() const { return training_; }
  bool trainer_waiting() const { return trainer_waiting_; }
  int32_t depth() const { return depth_; }
  int64_t depth_changes() const { return depth_changes_; }

 private:
  struct OpenGroup {
    int32_t scored = 0;
    int64_t oldest = std::numeric_limits<int64_t>::max() / 2;
    int64_t dispatch_version = 0;
    int64_t completed_at = 0;
  };

  void note(const RunEvent& event);
  void finish(const RunEvent& event);
  void apply(const Decision& decision);
  void started(const EpisodeId& id);
  void consumed(const Decision& decision);
  void check_never_idle() const;
  void check_left_behind(uint64_t ordinal, const OpenGroup& group, const Decision& batch,
                         int64_t last_completion) const;
  bool runs(uint64_t ordinal) const;
  int64_t most_debt() const;
  void end_step();

  ControllerOptions options_;
  int32_t depth_;
  int64_t depth_changes_ = 0;
  int64_t events_ = 0;
  std::set<EpisodeId> running_, cancelled_;
  std::map<EpisodeId, int64_t> version_at_start_;
  std::map<uint64_t, OpenGroup> open_;
  std::set<uint64_t> ordinals_, consumed_, dropped_;
  int64_t trained_ = 0, served_ = 0, publishing_ = -1, batches_ = 0;
  int64_t publishing_batches_ = 0, served_batches_ = 0;
  bool training_ = false, trainer_waiting_ = false, over_ = false;
  std::string finish_reason_;
};

// Random options that the controller accepts: small runs, every policy.
ControllerOptions random_options(uint64_t seed);

}  // namespace stoker::testing
