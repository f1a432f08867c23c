#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "async/pool.h"
#include "engine/engine.h"
#include "environment/registry.h"
#include "rollout/agent.h"
#include "rollout/episode_player.h"
#include "rollout/failure_policy.h"
#include "rollout/tool_latency.h"
#include "text/renderer.h"
#include "text/tokenizer.h"

namespace stoker {

struct EpisodeData;
class RunActivity;

// Budgets and deadlines of one episode; all are on by default. Each budget has its own stop reason under
// `limit.*`: limit.turns, limit.sampled_tokens, limit.observation_tokens, limit.context, limit.wall_clock.
// Deadlines may be infinite.
struct EpisodeLimits {
  int32_t max_turns = 8;
  int32_t max_turn_tokens = 512;      // sampled in one turn; reaching it ends the turn, which counts as it is
  int32_t max_sampled_tokens = 4096;  // of the whole episode
  int32_t max_observation_tokens = 16384;  // said by tools and environment after the prompt, without glue
  int32_t max_context_tokens = 0;          // 0: the engine's own
  double reset_timeout_seconds = 60;
  double step_timeout_seconds = 60;
  double generate_timeout_seconds = 600;
  double reward_timeout_seconds = 60;
  double close_timeout_seconds = 30;
  double episode_timeout_seconds = 1800;  // from reset to the last turn; close and reward have their own
};

struct EpisodeSettings {
  SamplingParameters sampling;
  EpisodeLimits limits;
  FailurePolicy failures;  // which endings are scored
  uint64_t run_seed = 0;
  RandomPurpose purpose = RandomPurpose::kTrain;  // or kEvaluate
  RunActivity* activity = nullptr;                // is told what the episodes do, if any; must outlive them
  ToolLatency tool_latency;                       // what is added to each tool call
};

// Plays episodes in an environment: reset, then turn for turn sampled tokens, tool calls or a step, then
// close and reward. How it can go wrong, by failure class: environment (reset, step: timeout, exception,
// empty_observation, replay_mismatch, or what the environment gave), tool (timeout, exception, ...), limit,
// reward (timeout, exception, not_finite, ...), infrastructure (the engine's, history_rewritten).
//
// close() of the environment is called exactly once on every path, shielded from cancellation; at its
// deadline it is cancelled. Calls that do not even heed their cancellation are abandoned kCancellationGrace
// after it, whether their own deadline, the episode's or the end of the run was its cause. An
// Error(kResource) of any of them (the blocking pool has lost too many threads) is no failure of the episode:
// it comes out and ends the run. Serves any number of concurrent episodes of one loop; must be destroyed on
// it, before its executor.
class EpisodeRunner final : public EpisodePlayer {
 public:
  // References must outlive the object. `blocking` is where code of environments, tools and rewards blocks;
  // it should have abandon_after (below kCancellationGrace), so that a call that never returns costs a thread
  // and not the end of the run. `rewards` are summed with `reward_weights` (empty: all 1). Settings out of
  // range throw Error(kInput) naming the field.
  EpisodeRunner(EpisodeSettings settings, Engine& engine, const EnvironmentKind& environment_kind,
                Agent& agent, std::shared_ptr<const Tokenizer> tokenizer, const Renderer& renderer,
                Pool& blocking, std::vector<std::unique_ptr<Reward>> rewards,
                std::vector<double> reward_weights = {});
  ~EpisodeRunner() override;

  // `resume_from`: its turns are played to the environment and the tools again, the tokens are taken as they
  // are, and sampling goes on behind them; a turn that was aborted is sampled again. Observations that differ
  // from the recorded ones are the failure environment.replay_mismatch.
  Task<EpisodeRecord> run(EpisodeId id, TaskRow task,
                          std::shared_ptr<const Trajectory> resume_from = nullptr) override;

  int64_t abandoned_environments() const;  // close() ran past its deadline
  int64_t abandoned_calls() const;         // of any kind, close included, that did not heed cancellation

 private:
  struct State;
  Task<> play(std::shared_ptr<EpisodeData> data, std::shared_ptr<const Trajectory> resume_from);

  std::unique_ptr<State> state_;
};

}  // namespace stoker
