#include "train/orchestrator_source.h"

#include "rollout/rollout_metrics.h"

namespace stoker {

namespace {

// Of an engine that stands on several, since the start of the run.
void add_replica_metrics(const EngineStatistics& now, MetricMap& metrics) {
  const int64_t publications = now.publications_committed + now.publications_aborted +
                               now.publications_partly_committed + now.publications_unknown;
  if (publications + now.lost_engines == 0) return;
  metrics["engine/lost_engines"] = static_cast<double>(now.lost_engines);
  metrics["engine/failed_over_requests"] = static_cast<double>(now.failed_over_requests);
  metrics["engine/publications/committed"] = static_cast<double>(now.publications_committed);
  metrics["engine/publications/aborted"] = static_cast<double>(now.publications_aborted);
  metrics["engine/publications/partly_committed"] = static_cast<double>(now.publications_partly_committed);
  metrics["engine/publications/unknown"] = static_cast<double>(now.publications_unknown);
}

}  // namespace

void OrchestratorSource::add_metrics(const RolloutBatch& batch, MetricMap& metrics) const {
  metrics.merge(rollout_metrics(batch));
  const Controller& controller = orchestrator_.controller();
  metrics["queue/ready_groups"] = controller.ready_groups();
  metrics["queue/running_episodes"] = controller.running_episodes();
  metrics["staleness/depth"] = controller.depth();
  metrics["rollout/dropped_groups"] = static_cast<double>(controller.dropped_groups());
  metrics["rollout/stale_groups"] = static_cast<double>(controller.stale_groups());
  metrics["rollout/set_aside_tasks"] = static_cast<double>(controller.set_aside_tasks());
  metrics["rollout/retried_episodes"] = static_cast<double>(controller.retried_episodes());
  metrics["rollout/refilled_episodes"] = static_cast<double>(controller.refilled_episodes());
  metrics["rollout/late_events"] = static_cast<double>(controller.late_events());
  if (runner_ != nullptr) {
    metrics["environment/abandoned"] = static_cast<double>(runner_->abandoned_environments());
    metrics["environment/abandoned_calls"] = static_cast<double>(runner_->abandoned_calls());
  }
  add_engine_metrics(metrics);
}

void OrchestratorSource::add_engine_metrics(MetricMap& metrics) const {
  EngineStatistics now = engine_.statistics();
  double seconds = to_seconds(executor_.now() - last_time_);
  double sampled = static_cast<double>(now.sampled_tokens - last_.sampled_tokens);
  metrics["engine/sampled_tokens"] = sampled;
  metrics["engine/prefill_tokens"] = static_cast<double>(now.prefill_tokens - last_.prefill_tokens);
  metrics["engine/cached_tokens"] = static_cast<double>(now.cached_tokens - last_.cached_tokens);
  metrics["engine/decode_steps"] = static_cast<double>(now.decode_steps - last_.decode_steps);
  metrics["engine/waiting_requests"] = static_cast<double>(now.waiting_requests);
  if (seconds > 0) {
    metrics["engine/tokens_per_second"] = sampled / seconds;
    metrics["engine/utilisation"] = (now.busy_seconds - last_.busy_seconds) / seconds;
  }
  if (now.cache_blocks_total > 0) {
    metrics["engine/cache_use"] =
        static_cast<double>(now.cache_blocks_used) / static_cast<double>(now.cache_blocks_total);
  }
  add_replica_metrics(now, metrics);
  last_ = now;
  last_time_ = executor_.now();
}

}  // namespace stoker
