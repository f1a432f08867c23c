#include "rollout/evaluation.h"

#include <algorithm>
#include <utility>

#include "async/collect.h"
#include "base/error.h"

namespace stoker {
namespace {

void count_episode(const EpisodeRecord& record, EvaluationResult& result, double& reward_sum,
                   double& token_sum, double& turn_sum) {
  ++result.episodes;
  if (record.reward) {
    ++result.scored;
    reward_sum += *record.reward;
  }
  token_sum += record.trajectory.sampled_count();
  turn_sum += record.trajectory.turn_count();
  result.tool_calls += record.tool_calls;
  result.tool_errors += record.tool_errors;
  if (record.failure) ++result.failures[record.failure->name()];
}

std::vector<int32_t> pass_sizes(int32_t samples) {
  std::vector<int32_t> sizes;
  for (int32_t k = 1; k < samples; k *= 2) sizes.push_back(k);
  sizes.push_back(samples);
  return sizes;
}

bool succeeded(const EpisodeRecord& record) { return record.reward.has_value() && record.success; }

}  // namespace

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  if (k < 1 || k > n || c < 0 || c > n) throw internal_error("pass_at_k needs 1 <= k <= n and 0 <= c <= n.");
  if (n - c < k) return 1.0;
  double all_fail = 1.0;
  for (int64_t i = n - c + 1; i <= n; ++i) all_fail *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - all_fail;
}

Task<EvaluationResult> evaluate(const EvaluationOptions& options, EpisodePlayer& player,
                                const TaskSource& tasks) {
  std::vector<Task<EpisodeRecord>> episodes;
  for (int32_t task = 0; task < options.tasks; ++task) {
    for (int32_t sample = 0; sample < options.samples; ++sample) {
      EpisodeId id{.task_ordinal = static_cast<uint64_t>(task), .sample = static_cast<uint32_t>(sample)};
      episodes.push_back(player.run(id, tasks.task(id.task_ordinal)));
    }
  }
  std::vector<EpisodeRecord> records = co_await collect_all_windowed(
      std::move(episodes), static_cast<size_t>(options.max_concurrent_episodes));

  EvaluationResult result;
  double reward_sum = 0, token_sum = 0, turn_sum = 0;
  int64_t successes = 0;
  for (int32_t task = 0; task < options.tasks; ++task) {
    auto first = records.begin() + static_cast<int64_t>(task) * options.samples;
    int64_t correct = std::count_if(first, first + options.samples, succeeded);
    successes += correct;
    for (int32_t k : pass_sizes(options.samples)) {
      result.pass_at[k] += pass_at_k(options.samples, correct, k) / options.tasks;
    }
  }
  for (EpisodeRecord& record : records) {
    record.purpose = "evaluate";
    count_episode(record, result, reward_sum, token_sum, turn_sum);
    if (options.episode_finished) options.episode_finished(record);
  }
  auto episodes_played = static_cast<double>(std::max<int64_t>(result.episodes, 1));
  if (result.scored > 0) result.mean_reward = reward_sum / static_cast<double>(result.scored);
  result.success_rate = static_cast<double>(successes) / episodes_played;
  result.mean_sampled_tokens = token_sum / episodes_played;
  result.mean_turns = turn_sum / episodes_played;
  co_return result;
}

}  // namespace stoker
