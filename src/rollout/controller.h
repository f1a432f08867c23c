#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "rollout/decision.h"
#include "rollout/failure_policy.h"

namespace stoker {

// What to do with a group some of whose members failed for good, that is: ended without a reward.
enum class FailedMemberPolicy {
  kShrink,  // it goes on with the others; without any it is dropped
  kDrop,    // it is dropped, what still runs of it is cancelled
  kRefill,  // another episode of its task takes the place, max_refills times a group; then it shrinks
};

// Which ready groups make up the next batch.
enum class BatchOrder {
  kOldestFirst,  // the ready groups that were dispatched first
  kCompletion,   // those that became ready first
  kStrict,       // exactly the next ones in dispatch order: training waits for each of them
};

// What happens to a group that is, or would be at training, older than max_staleness (the cap H).
enum class StaleAction {
  kDrop,    // a ready group over the cap is dropped, whole
  kCancel,  // so is a running one, as soon as its dispatch version is over the cap: it could only be dropped
  kWait,    // training waits while a running group would be over the cap after the next step
  kMask,    // it is trained, its tokens over the cap without loss
};

// When new weights reach episodes in flight.
enum class UpdateBoundary {
  kToken,  // between two tokens: the rest of a turn is sampled by the new version
  kTurn,   // between two turns: TurnBoundaryEngine waits for those in generation; to the controller as kToken
  kBarrier,  // between two episodes: no group starts, and the learner waits, until no episode runs, retries
             // and refills included. Costs the gain of running ahead where episodes differ in length.
};

// The names in run files and event logs: "oldest", "completion", "strict"; "drop", "cancel", "wait", "mask";
// "token", "turn", "barrier"; "shrink", "drop", "refill". An unknown name throws Error(kInput) with the known
// ones.
const char* to_string(BatchOrder order);
const char* to_string(StaleAction action);
const char* to_string(UpdateBoundary boundary);
const char* to_string(FailedMemberPolicy policy);
BatchOrder batch_order_from_name(const std::string& name);
StaleAction stale_action_from_name(const std::string& name);
UpdateBoundary update_boundary_from_name(const std::string& name);
FailedMemberPolicy failed_member_policy_from_name(const std::string& name);

constexpr double kMostBackoffSeconds = 60;

struct ControllerOptions {
  int64_t total_steps = 1;              // batches that the run trains, those before a resume included
  int32_t groups_per_batch = 1;         // B
  int32_t group_size = 1;               // G
  int32_t max_concurrent_episodes = 1;  // at least G
  int32_t max_ahead = 0;  // eta: batches that dispatch may run ahead of training; 0: synchronous
  // Groups beyond those: with max_ahead 0, max_staleness 0 and stale_action kCancel the first ones to end are
  // trained and the rest is dropped, which loses the long ones. Not with adaptive_depth, nor in strict order.
  int32_t extra_groups = 0;
  // max_ahead is the most, and at least 2; the depth is the smallest that DepthFinder finds to keep the
  // scarcer of trainer and engine busy.
  bool adaptive_depth = false;
  int64_t max_staleness = 1 << 20;  // H: the largest lag of a trained token
  StaleAction stale_action = StaleAction::kDrop;
  BatchOrder batch_order = BatchOrder::kOldestFirst;
  UpdateBoundary update_boundary = UpdateBoundary::kToken;
  FailurePolicy failures;    // by class: tried again or left out
  int32_t max_attempts = 3;  // per episode
  double retry_backoff_seconds =
      0;  // before the second attempt; doubled for each one more, at most kMostBackoffSeconds
  FailedMemberPolicy failed_members = FailedMemberPolicy::kShrink;
  int32_t max_refills = 2;  // per group, under kRefill
  int32_t min_scored = 1;   // groups that end with fewer scored members are dropped; at most G
  // A task of which so many attempts failed while none was scored is set aside: its group is dropped, what
  // runs of it is cancelled, and the run goes on with other tasks.
  int32_t max_task_failures = 16;
  int32_t max_consecutive_drops = 64;  // groups dropped for failures, none complete between them: give up
  uint64_t end_ordinal = std::numeric_limits<uint64_t>::max();  // tasks from here on do not exist

  Json to_json() const;
  static ControllerOptions from_json(const Json& json);  // throws Error(kInput)
  bool operator==(const ControllerOptions&) const = default;
};

// Every decision of a run, as a pure state machine: events in, decisions out; no clock, no I/O, no
// randomness. The same events give the same decisions, so the event log (event_log.h) replays a run.
//
// Admission (Fu et al. 2025, AReaL, section 5): a group may start while
//   * groups dispatched so far, less those dropped, are fewer than (depth + served batches + 1) * B, and
//     never more than the run will train, both plus extra_groups. A batch is served once the engine has the
//     weights of its step: counted from the step's end, what starts during a publication would be one version
//     older than the depth. The depth is max_ahead, or with adaptive_depth what was found so far;
//   * its G episodes fit under max_concurrent_episodes;
//   * the publication debt, trained version less served version, is at most min(depth, max_staleness):
//     synchronous episodes wait for the weights that they must be sampled from;
//   * at update_boundary kBarrier, no publication is owed.
// So a slot opens whenever a step, an episode or a drop ends. Retries and refills take the slot of the
// attempt that failed, also while they wait for their backoff.
//
// A batch is B ready groups, chosen by batch_order and listed by ordinal; at max_ahead = 0 and without
// extra_groups these are exactly the dispatched ones. What is ready and not taken stays for the next step.
// Only the last batch of a finite source may be smaller. Whatever the action at the cap, no token is trained
// with a lag over it.
class Controller {
 public:
  // Options that admit nothing (G over the concurrency limit, counts below 1) throw Error(kInput).
  explicit Controller(const ControllerOptions& options);
  ~Controller();

  // Events that break the protocol (a second start, a publication that was not asked for) throw
  // Error(kInternal).
  std::vector<Decision> handle(const RunEvent& event);

  // Ordinals below this were consumed or dropped, except `open_ordinals`: the position in the task stream
  // that a checkpoint saves at a step boundary.
  uint64_t next_ordinal() const;
  std::vector<uint64_t> open_ordinals() const;

  int64_t trained_version() const;
  int64_t served_version() const;
  int32_t depth() const;             // batches that dispatch may run ahead at this moment
  int32_t found_depth() const;       // the same, less what is only on trial (adaptive_depth)
  bool waits_at_barrier() const;     // a publication is owed and waits for the episodes that run
  int32_t running_episodes() const;  // cancelled ones that have not ended included
  int32_t ready_groups() const;      // complete, not consumed: the depth of the train queue
  int32_t open_groups() const;       // dispatched, not consumed, not dropped
  int64_t dropped_groups() const;
  int64_t stale_groups() const;     // of those dropped: too old
  bool waiting_for_stale() const;   // a whole batch is ready, and training waits for a group near the cap
  int64_t set_aside_tasks() const;  // of the dropped groups: every attempt of their task failed
  int64_t retried_episodes() const;
  int64_t refilled_episodes() const;
  int64_t late_events() const;  // of attempts that were over or cancelled; counted and ignored

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker
