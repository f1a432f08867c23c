#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/run_file.h"
#include "cli/session.h"
#include "rollout/evaluation.h"
#include "train/trainer.h"

namespace stoker {

// Evaluates a version of the policy on the held-out tasks, at each of evaluate.temperatures, on an engine of
// its own that serves that version alone, so that training beside it changes nothing. References must outlive
// the object.
class PolicyEvaluator final : public Evaluator {
 public:
  // `activity` is told what the episodes do; may be null.
  PolicyEvaluator(Session& session, const RunConfig& config,
                  std::function<void(const EpisodeRecord&)> episode_finished,
                  RunActivity* activity = nullptr);

  // Metrics are named eval/SETTING/NAME, SETTING being "greedy" or "temperature_1". The score is the success
  // rate at the last temperature.
  Task<Evaluation> evaluate(WeightsPtr weights, int64_t step) override;

 private:
  Task<EvaluationResult> evaluate_at(Engine& engine, double temperature, int64_t step);

  Session& session_;
  const RunConfig& config_;
  std::function<void(const EpisodeRecord&)> episode_finished_;
  RunActivity* activity_;
  std::unique_ptr<TaskSource> tasks_;
};

// One line for people: "step 20: success 0.918 greedy, 0.867 at temperature 1".
std::string evaluation_line(int64_t step, const MetricMap& metrics, const std::vector<double>& temperatures);

}  // namespace stoker
