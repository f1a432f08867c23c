#include "cli/policy_evaluator.h"

#include <fmt/core.h>

#include <algorithm>
#include <exception>

#include "async/cancellation.h"

namespace stoker {
namespace {

void add_metrics(const EvaluationResult& result, const std::string& prefix, MetricMap& metrics) {
  metrics[prefix + "success"] = result.success_rate;
  if (result.mean_reward) metrics[prefix + "reward"] = *result.mean_reward;
  for (const auto& [k, value] : result.pass_at) metrics[fmt::format("{}pass@{}", prefix, k)] = value;
  metrics[prefix + "completions/mean_length"] = result.mean_sampled_tokens;
  metrics[prefix + "num_turns/mean"] = result.mean_turns;
  metrics[prefix + "episodes"] = static_cast<double>(result.episodes);
  metrics[prefix + "not_scored"] = static_cast<double>(result.episodes - result.scored);
  metrics[prefix + "tools/calls"] = static_cast<double>(result.tool_calls);
  metrics[prefix + "tools/failures"] = static_cast<double>(result.tool_errors);
  for (const auto& [name, count] : result.failures)
    metrics[prefix + "failures/" + name] = static_cast<double>(count);
}

}  // namespace

std::string evaluation_line(int64_t step, const MetricMap& metrics, const std::vector<double>& temperatures) {
  std::string line = fmt::format("evaluation at step {}: success", step);
  for (size_t i = 0; i < temperatures.size(); ++i) {
    auto success = metrics.find("eval/" + sampling_name(temperatures[i]) + "/success");
    if (success == metrics.end()) continue;
    line +=
        fmt::format("{} {:.3f} {}", i > 0 ? "," : "", success->second,
                    temperatures[i] == 0 ? "greedy" : fmt::format("at temperature {:g}", temperatures[i]));
  }
  return line;
}

PolicyEvaluator::PolicyEvaluator(Session& session, const RunConfig& config,
                                 std::function<void(const EpisodeRecord&)> episode_finished,
                                 RunActivity* activity)
    : session_(session),
      config_(config),
      episode_finished_(std::move(episode_finished)),
      activity_(activity),
      tasks_(session.environment().evaluation_tasks()) {}

Task<EvaluationResult> PolicyEvaluator::evaluate_at(Engine& engine, double temperature, int64_t step) {
  std::unique_ptr<EpisodeRunner> runner = session_.evaluation_runner(engine, temperature, activity_);
  EvaluationOptions options{.tasks = config_.evaluate.tasks,
                            .samples = config_.evaluate.samples,
                            .max_concurrent_episodes = config_.evaluate.max_concurrent_episodes};
  if (std::optional<uint64_t> size = tasks_->epoch_size()) {
    options.tasks = static_cast<int32_t>(std::min<uint64_t>(*size, static_cast<uint64_t>(options.tasks)));
  }
  std::string purpose = fmt::format("step {} {}", step, sampling_name(temperature));
  options.episode_finished = [&](const EpisodeRecord& record) {
    if (!episode_finished_) return;
    EpisodeRecord named = record;
    named.purpose = purpose;
    episode_finished_(named);
  };
  co_return co_await stoker::evaluate(options, *runner, *tasks_);
}

Task<Evaluation> PolicyEvaluator::evaluate(WeightsPtr weights, int64_t step) {
  std::unique_ptr<NativeEngine> engine = session_.make_engine(weights);
  Evaluation evaluation;
  std::exception_ptr failure;
  try {
    for (double temperature : config_.evaluate.temperatures) {
      EvaluationResult result = co_await evaluate_at(*engine, temperature, step);
      add_metrics(result, "eval/" + sampling_name(temperature) + "/", evaluation.metrics);
      evaluation.score = result.success_rate;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  co_await shielded(engine->close());
  if (failure) std::rethrow_exception(failure);
  co_return evaluation;
}

}  // namespace stoker
