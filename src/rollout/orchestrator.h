#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "async/task.h"
#include "engine/engine.h"
#include "environment/task_source.h"
#include "rollout/controller.h"
#include "rollout/episode_player.h"
#include "rollout/group.h"
#include "rollout/run_activity.h"

namespace stoker {

// Executes the controller's decisions: keeps episodes running on one loop, collects groups, hands batches to
// the learner, publishes weights. Every event goes to the controller, and, with its decisions, to the event
// log. It decides nothing itself, and synchronous and asynchronous runs take the same path.
//
//   Orchestrator orchestrator(options, episode_runner, tasks, engine);
//   co_await orchestrator.start();
//   while (auto batch = co_await orchestrator.next_batch()) { ...train...;
//     co_await orchestrator.step_finished(co_await learner.snapshot()); }
//   co_await orchestrator.close();
//
// Loop thread only.
class Orchestrator {
 public:
  struct Options {
    ControllerOptions controller;
    uint64_t first_ordinal = 0;           // of a resumed run: Controller::next_ordinal at its checkpoint
    std::vector<uint64_t> open_ordinals;  // Controller::open_ordinals at its checkpoint: they come first
    int64_t first_version = 0;
    int64_t trained_batches = 0;  // before a resume; batches without an update included
    std::function<void(const Json& line)>
        event_log;  // each line of the event log (event_log.h); may be empty
    // Each attempt that ended, failed ones included, cancelled ones not; may be empty.
    std::function<void(const EpisodeRecord&)> episode_finished;
    RunActivity* activity = nullptr;  // is told what happens, if any; must outlive the object
  };

  // References must outlive the object. Starts nothing; `start` does.
  Orchestrator(Options options, EpisodePlayer& player, const TaskSource& tasks, Engine& engine);
  // After start, close() must have returned.
  ~Orchestrator();

  // Must be called on the loop, once. The caller's cancellation from then on stops the run.
  Task<> start();

  // The next batch in the controller's order; empty when the run is over. Throws what the producing side
  // threw, and Error(kResource) when the controller gave up.
  Task<std::optional<RolloutBatch>> next_batch();

  // The step of the last batch is done: `weights` are its result. The controller decides when to publish.
  // Returns when the weights serve, which at UpdateBoundary::kBarrier is after the episodes that run, or when
  // the run is over. Cancelling it ends that wait, and the weights do not serve; what is being published
  // already is brought to its end. Weights that the engine refuses throw Error(kInternal).
  Task<> step_finished(WeightsPtr weights);

  // The last batch had nothing to train: it counts as one of the run's steps, the weights stay.
  void step_skipped();

  // No more work: what runs is cancelled, next_batch gives no batch any more. For a clean end by a signal.
  void request_stop();

  // Cancels what runs, waits until every environment is closed (or abandoned) and every task has ended. Safe
  // after a failure, and more than once.
  Task<> close();

  const Controller& controller() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker
