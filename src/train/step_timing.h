#pragma once

#include <string>
#include <utility>
#include <vector>

#include "async/executor.h"
#include "base/metrics.h"
#include "rollout/group.h"

namespace stoker {

// Where the time of one step went, by the Executor's clock. lap(name) ends a part.
class StepTimer {
 public:
  explicit StepTimer(Executor& executor) : executor_(executor), start_(executor.now()), last_(start_) {}

  void lap(const char* name);

  // Seconds of the lap named so; 0 when there was none.
  double seconds(const std::string& name) const;

  // Adds step_time, time/NAME of each lap in seconds, and time/generate and time/tools: the wait for the
  // batch, split as the time of its episodes was split between sampling and everything else that they waited
  // for.
  void add_metrics(const RolloutBatch& batch, MetricMap& metrics) const;

 private:
  Executor& executor_;
  TimePoint start_;
  TimePoint last_;
  std::vector<std::pair<const char*, Duration>> laps_;
};

}  // namespace stoker
