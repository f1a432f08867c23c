#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "rollout/episode.h"
#include "rollout/orchestrator.h"
#include "train/trainer.h"

namespace stoker {

// The Trainer's view of an Orchestrator, its engine and its episodes, all of which must outlive it.
class OrchestratorSource final : public RolloutSource {
 public:
  // `runner` may be null: nothing is then said of abandoned calls.
  OrchestratorSource(Orchestrator& orchestrator, const Engine& engine, const Executor& executor,
                     const EpisodeRunner* runner = nullptr)
      : orchestrator_(orchestrator), engine_(engine), executor_(executor), runner_(runner) {}

  Task<std::optional<RolloutBatch>> next_batch() override { return orchestrator_.next_batch(); }
  Task<> step_finished(WeightsPtr weights) override {
    return orchestrator_.step_finished(std::move(weights));
  }
  void step_skipped() override { orchestrator_.step_skipped(); }
  uint64_t next_ordinal() const override { return orchestrator_.controller().next_ordinal(); }
  std::vector<uint64_t> open_ordinals() const override { return orchestrator_.controller().open_ordinals(); }

  // Statistics of the episodes (rollout_metrics.h), queue depths, episodes in flight, drops and retries of
  // the controller, calls that were abandoned; tokens and use of the engine since the step before.
  void add_metrics(const RolloutBatch& batch, MetricMap& metrics) const override;

 private:
  void add_engine_metrics(MetricMap& metrics) const;

  Orchestrator& orchestrator_;
  const Engine& engine_;
  const Executor& executor_;
  const EpisodeRunner* runner_;
  mutable EngineStatistics last_;  // of the step before
  mutable TimePoint last_time_{};
};

}  // namespace stoker
