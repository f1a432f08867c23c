#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "rollout/decision.h"

namespace stoker::testing {

// What runs of the explorer came to, in all.
struct ExplorationTotals {
  int64_t runs = 0;
  int64_t steps = 0;
  int64_t groups_trained = 0, groups_dropped = 0;
  int64_t episodes = 0;  // attempts that were started
  int64_t turns = 0;     // requests to the engine
  int64_t environments = 0;
  int64_t engines_lost = 0;
  std::map<std::string, int64_t> endings;       // of runs
  std::map<std::string, int64_t> failures;      // of attempts, by name
  std::map<std::string, int64_t> publications;  // to two engines, by outcome
  std::map<std::string, int64_t> transitions;   // of the controller: "episode_failed -> drop_group, stale"

  std::string to_text() const;
};

// Plays one run of three or four steps of four groups of four, of three turns each: the controller, the
// orchestrator, the episode runner and its agent, around an engine and environments that only take time,
// under the schedule, options, latency law and faults of the seed. Environments and tools hang, also such
// that they heed no cancellation, raise, fail and are slow; the engine loses requests, answers late or never;
// some tasks fail every time; the run may be stopped, cancelled, or fail in training at a drawn moment. In
// every third run the engine is two that are lost at drawn moments and replaced (LosableEngine).
//
// A failure of the running test is: a run that does not end, a broken promise of the controller
// (DecisionBooks), a log that does not replay, a group that is trained twice or lost, an environment that is
// not closed exactly once, or one that is left when everything has ended, a request or token that the loss of
// an engine cost, or an engine that takes requests on another version than the one that was published.
void explore(uint64_t seed, ExplorationTotals& totals);

}  // namespace stoker::testing
