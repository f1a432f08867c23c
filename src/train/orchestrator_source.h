#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "rollout/orchestrator.h"
#include "train/trainer.h"

namespace stoker {

// The Trainer's view of an Orchestrator and its engine, both of which must outlive it.
class OrchestratorSource final : public RolloutSource {
 public:
  OrchestratorSource(Orchestrator& orchestrator, const Engine& engine, const Executor& executor)
      : orchestrator_(orchestrator), engine_(engine), executor_(executor) {}

  Task<std::optional<RolloutBatch>> next_batch() override { return orchestrator_.next_batch(); }
  Task<> step_finished(WeightsPtr weights) override {
    return orchestrator_.step_finished(std::move(weights));
  }
  uint64_t next_ordinal() const override { return orchestrator_.controller().next_ordinal(); }
  std::vector<uint64_t> open_ordinals() const override { return orchestrator_.controller().open_ordinals(); }

  // Statistics of the episodes (rollout_metrics.h), queue depths, episodes in flight, drops and retries of
  // the controller; tokens and use of the engine since the step before.
  void add_metrics(const RolloutBatch& batch, MetricMap& metrics) const override;

 private:
  void add_engine_metrics(MetricMap& metrics) const;

  Orchestrator& orchestrator_;
  const Engine& engine_;
  const Executor& executor_;
  mutable EngineStatistics last_;  // of the step before
  mutable TimePoint last_time_{};
};

}  // namespace stoker
