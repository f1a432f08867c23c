#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "async/simulated_executor.h"
#include "async/task.h"

namespace stoker {

// A schedule under which a program gets stuck or throws.
struct ScheduleFinding {
  uint64_t schedule_seed = 0;  // SimulatedExecutor(schedule_seed) runs the same schedule again
  int schedule = 0;            // how many schedules were fine before it
  uint64_t digest = 0;         // SimulatedExecutor::schedule_digest() at the failure
  std::string message;
  std::vector<StuckTask> stuck;  // empty when the program threw something else

  bool operator==(const ScheduleFinding&) const = default;
};

// Runs the program that `make` gives under the schedule of one seed; empty when it ends well.
std::optional<ScheduleFinding> try_schedule(uint64_t schedule_seed, const std::function<Task<void>()>& make,
                                            const SimulationOptions& options = {});

// Runs it under up to `limit` schedules, whose seeds derive from `seed`, until one fails.
//
//   auto finding = search_schedules(7, 10'000, [] { return program(); });
//   if (finding) FAIL() << finding->message;   // then debug with SimulatedExecutor(finding->schedule_seed)
std::optional<ScheduleFinding> search_schedules(uint64_t seed, int limit,
                                                const std::function<Task<void>()>& make,
                                                const SimulationOptions& options = {});

}  // namespace stoker
