#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "async/task.h"
#include "engine/engine.h"
#include "environment/task_source.h"
#include "rollout/controller.h"
#include "rollout/episode.h"
#include "rollout/group.h"

namespace stoker {

// Executes the controller's decisions: keeps episodes running on one loop, collects groups, hands batches to
// the learner, publishes weights. Every event goes to the controller, and, with its decisions, to the event
// log.
//
//   Orchestrator orchestrator(options, episode_runner, tasks, engine);
//   Task<> learner_loop: while (auto batch = co_await orchestrator.next_batch()) { ...train...;
//     co_await orchestrator.step_finished(co_await learner.snapshot()); }
//   co_await orchestrator.close();
class Orchestrator {
 public:
  struct Options {
    ControllerOptions controller;
    uint64_t first_ordinal = 0;  // of a resumed run
    int64_t first_version = 0;
    std::function<void(const Json& line)> event_log;             // called on the loop thread; may be empty
    std::function<void(const EpisodeRecord&)> episode_finished;  // may be empty
  };

  // References must outlive the object. Starts nothing; `start` does.
  Orchestrator(Options options, EpisodeRunner& runner, const TaskSource& tasks, Engine& engine);
  ~Orchestrator();

  // Must be called on the loop, once.
  Task<> start();
  // The next batch in the controller's order; empty when the run is over. Throws what the producing side
  // threw.
  Task<std::optional<RolloutBatch>> next_batch();
  // An optimizer step is done; the controller decides when to publish. Returns when the weights serve, or at
  // once when the controller postpones them.
  Task<> step_finished(WeightsPtr weights);
  // Cancels what runs, closes every environment, joins.
  Task<> close();

  const Controller& controller() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker
