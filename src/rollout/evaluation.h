#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "environment/task_source.h"
#include "rollout/episode_player.h"

namespace stoker {

struct EvaluationOptions {
  int32_t tasks = 256;  // the first so many of the source
  int32_t samples = 1;  // episodes a task
  int32_t max_concurrent_episodes = 256;
  // Called on the loop thread for each episode as soon as all before it have ended, in order of task and
  // sample; may be empty. An evaluation that is cancelled or fails hands over all that had ended.
  std::function<void(const EpisodeRecord&)> episode_finished;
};

struct EvaluationResult {
  int64_t episodes = 0;
  int64_t scored = 0;                 // with a reward
  std::optional<double> mean_reward;  // over scored episodes; missing when there is none
  double success_rate = 0;            // over all episodes; one that was not scored is no success
  std::map<int32_t, double> pass_at;  // k = 1, 2, 4, ... up to samples, and samples: mean over tasks
  double mean_sampled_tokens = 0;
  double mean_turns = 0;
  int64_t tool_calls = 0;
  int64_t tool_errors = 0;
  std::map<std::string, int64_t> failures;  // by name: "limit.turns"
};

// Plays `samples` episodes of each held-out task and counts. Each draws from its own random stream, so the
// result depends on the weights alone. What the player throws comes out after all have ended. Holds at most
// four times max_concurrent_episodes records: starts wait for the slowest when it falls so far behind.
Task<EvaluationResult> evaluate(const EvaluationOptions& options, EpisodePlayer& player,
                                const TaskSource& tasks);

// Probability that at least one of k samples drawn without replacement from n, c of which succeed, succeeds:
// 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, "Evaluating large language models trained on code", equation
// 1). 1 <= k <= n, 0 <= c <= n.
double pass_at_k(int64_t n, int64_t c, int64_t k);

}  // namespace stoker
