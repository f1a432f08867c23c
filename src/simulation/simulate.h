#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/json.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "simulation/scenario.h"
#include "simulation/trained_digest.h"

namespace stoker {

// What a simulated run came to, from the end of its warm-up on. Lags are in versions at training.
struct SimulationResult {
  double virtual_seconds = 0;
  int64_t trajectories = 0;  // trained
  double trajectories_per_hour = 0;
  double trainer_utilisation = 0;  // share of time in training steps
  double engine_utilisation = 0;   // tokens generated over the engine's capacity
  double slot_utilisation = 0;     // episodes in flight over max_concurrent_episodes
  double lag_mean = 0, lag_p50 = 0, lag_p95 = 0, lag_p99 = 0, lag_max = 0;  // since a group's dispatch
  double turn_lag_mean = 0;        // since the first token of each turn
  double length_ratio = 0;         // mean scale of trained episodes over that of dispatched ones
  double longest_tenth_share = 0;  // of trained groups: those in the longest tenth of the law (0.1: no bias)
  double depth_mean = 0;           // over the steps
  int64_t depth_found = 0;         // what adaptive_depth came to; else max_ahead
  int64_t stale_groups = 0;        // dropped over the whole run
  double stale_share = 0;          // of them in all groups trained or dropped
  // Groups dispatched and neither trained nor dropped, in batches, whenever new weights serve. What is
  // trained has crossed so many versions: the mean lag, by Little's law, where nothing is dropped.
  double outstanding_mean = 0;
  // The same, of those publications at which slots were free for another group: nothing but the depth kept
  // it back. And their share of all.
  double outstanding_unblocked_mean = 0;
  double unblocked_share = 0;
  TrainedDigest trained;         // of the whole run
  uint64_t played = 0;           // all episodes that ended, as they were played, in whatever order
  uint64_t schedule_digest = 0;  // equal for equal runs
};

// What the controls of the protocol change about a run, or ask of it.
struct Variation {
  bool frozen_weights = false;  // steps leave the weights as they are, and the tasks end with the steps
  // Other names for the same work (workload.h).
  uint64_t first_ordinal = 0;
  bool shuffled_samples = false;
  bool shuffled_groups = false;      // those of each groups_per_step
  std::optional<uint64_t> schedule;  // seed of the order in which work is done that is ready at once
  std::function<void(const Json& line)> event_log;  // takes the event log; may be empty
};

// Runs the orchestrator and its controller on a virtual clock against a processor-sharing engine, episodes
// that follow the law, and a learner that takes train_seconds. The same scenario gives the same result on
// every machine.
// `tracer` takes the run's trace, in virtual time; may be null.
SimulationResult simulate(const Scenario& scenario, Tracer* tracer = nullptr,
                          const Variation& variation = {});

// Names and values, for reports.
MetricMap to_metrics(const SimulationResult& result);

}  // namespace stoker
