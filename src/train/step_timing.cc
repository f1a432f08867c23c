#include "train/step_timing.h"

namespace stoker {

void StepTimer::lap(const char* name) {
  TimePoint now = executor_.now();
  laps_.emplace_back(name, now - last_);
  last_ = now;
}

double StepTimer::seconds(const std::string& name) const {
  for (const auto& [lap_name, duration] : laps_) {
    if (name == lap_name) return to_seconds(duration);
  }
  return 0;
}

void StepTimer::add_metrics(const RolloutBatch& batch, MetricMap& metrics) const {
  metrics["step_time"] = to_seconds(last_ - start_);
  for (const auto& [name, duration] : laps_) metrics[std::string("time/") + name] = to_seconds(duration);

  double sampling = 0, whole = 0;
  for (const Group& group : batch.groups) {
    for (const EpisodeRecord& episode : group.episodes) {
      whole += static_cast<double>(episode.end_time - episode.start_time);
      for (const Span& span : episode.trajectory.spans()) {
        if (span.kind == SpanKind::kSampled) sampling += static_cast<double>(span.end_time - span.start_time);
      }
    }
  }
  double share = whole > 0 ? sampling / whole : 1.0;
  double wait = seconds("wait_for_batch");
  metrics["time/generate"] = wait * share;
  metrics["time/tools"] = wait * (1.0 - share);
}

}  // namespace stoker
