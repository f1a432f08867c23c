#include "async/schedule_search.h"

#include "async/run.h"
#include "base/random.h"

namespace stoker {

std::optional<ScheduleFinding> try_schedule(uint64_t schedule_seed, const std::function<Task<void>()>& make,
                                            const SimulationOptions& options) {
  SimulatedExecutor executor(schedule_seed, options);
  ScheduleFinding finding{.schedule_seed = schedule_seed};
  try {
    run(executor, make());
    return std::nullopt;
  } catch (const StuckError& error) {
    finding.message = error.what();
    finding.stuck = error.tasks();
  } catch (const std::exception& error) {
    finding.message = error.what();
  }
  finding.digest = executor.schedule_digest();
  return finding;
}

std::optional<ScheduleFinding> search_schedules(uint64_t seed, int limit,
                                                const std::function<Task<void>()>& make,
                                                const SimulationOptions& options) {
  RandomStream seeds({.run_seed = seed, .purpose = RandomPurpose::kSchedule, .task_ordinal = 1});
  for (int schedule = 0; schedule < limit; ++schedule) {
    if (auto finding = try_schedule(seeds.bits(), make, options)) {
      finding->schedule = schedule;
      return finding;
    }
  }
  return std::nullopt;
}

}  // namespace stoker
