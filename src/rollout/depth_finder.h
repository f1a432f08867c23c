#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace stoker {

// Finds the smallest depth (batches that dispatch runs ahead of training) that keeps the scarcer of trainer
// and engine busy. What it is told decides, and nothing else.
//
// It looks at windows of steps. Depth is short only where the trainer waits for groups, and also, in the same
// window, groups wait for nothing but the depth: then the next depth is tried. What a trial gains is measured
// by the side that limits the run, since the length of episodes is noise to the other one: tokens per second
// as far as the trainer waits at every step, steps per second as far as it does not. Where groups are too old
// to be trained whole, tokens say nothing of what is trained, and steps per second decide alone. A gain below
// kLeastGain says that the engine, or the cap, is what is scarce, and the depth goes back.
//
// It goes down by one where that costs nothing: a batch of what the depth allows, or of ready groups, was
// never needed in a window. Where the trainer waits for the engine or for places, down is tried too.
//
// After a change nothing is measured for kSettleSteps: what was dispatched before is still in flight. What
// failed is tried again after kFirstPatience steps, then after twice as many each time up to kMostPatience,
// or kMostPatienceDown for less depth: a run that changes is followed, and one that does not is changed
// seldom.
class DepthFinder {
 public:
  static constexpr int32_t kWindow = 8;       // steps of a measurement
  static constexpr int32_t kQuickWindow = 4;  // of one while nothing failed so far, and the wait is clear
  static constexpr int32_t kLongWindow = 16;  // of one in which the trainer hardly waits
  static constexpr int32_t kSettleSteps = 3;
  static constexpr double kLeastWait = 0.02;     // share of the time: shorter waits are none
  static constexpr double kLeastBlocked = 0.05;  // so for groups that the depth keeps back
  static constexpr double kClearWait = 0.2;
  static constexpr double kLeastGain = 0.015;
  static constexpr int32_t kFirstPatience = 24;      // steps before what failed is tried again
  static constexpr int32_t kMostPatience = 48;       // for more depth: its trials cost no throughput
  static constexpr int32_t kMostPatienceDown = 400;  // for less: they do

  // Depths from 1 to `most`, beginning at 1.
  DepthFinder(int32_t most, int32_t groups_per_batch);

  // What held from the last call until `time`, ns.
  struct Interval {
    int64_t time = 0;
    int64_t sampled_tokens = 0;  // by the engine until then, since it began
    bool trainer_waits = false;  // for groups that depth could bring
    bool group_blocked = false;  // by the depth, and by nothing else
    int64_t unused_groups = 0;   // that the depth would have let start
  };
  void observe(const Interval& interval);

  // A batch was taken, which left so many groups ready.
  void batch_taken(int64_t groups_left);

  // A group was dropped because it was over the cap on staleness, or is trained with tokens masked for it.
  void group_stale() { ++now_.stale_groups; }

  // A step has ended. Returns why, if the depth is another one from now on.
  std::optional<std::string> step_ended();

  int32_t depth() const { return depth_; }
  // The depth that is not on trial.
  int32_t found() const { return depth_ - trial_; }

 private:
  struct Measurement {
    int32_t steps = 0;
    int64_t time = 0, waited = 0, blocked = 0;  // ns
    int64_t tokens = 0;
    int64_t stale_groups = 0;
    int32_t late_steps = 0;                                      // that the trainer waited for
    int64_t least_unused = std::numeric_limits<int64_t>::max();  // groups
    int64_t least_left = std::numeric_limits<int64_t>::max();
    double share(int64_t part) const;
    double wait() const { return share(waited); }
    bool short_of_depth() const { return wait() > kLeastWait && share(blocked) > kLeastBlocked; }
  };
  static double gain(const Measurement& shallower, const Measurement& deeper);

  std::string judge_trial();
  std::string next_move();
  std::string move(int32_t by, const std::string& reason);

  int32_t most_;
  int32_t groups_per_batch_;
  int32_t depth_ = 1;
  int64_t last_time_ = 0, last_tokens_ = 0;
  int64_t step_time_ = 0, step_waited_ = 0;  // of the step that is not over
  Measurement now_;
  Measurement before_;  // the trial's
  int32_t trial_ = 0;   // +1, -1: on trial at one more, one less than `before_` was measured at; 0: none
  int32_t settle_ = kSettleSteps;
  int32_t patience_up_ = kFirstPatience, patience_down_ = kFirstPatience;
  int32_t rest_up_ = 0, rest_down_ = 0;  // steps until the next trial
};

}  // namespace stoker
