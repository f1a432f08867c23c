#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "environment/registry.h"
#include "rollout/agent.h"
#include "text/renderer.h"
#include "text/tokenizer.h"

namespace stoker {

// Budgets and deadlines of one episode; all are on by default. Each budget has its own stop reason under
// `limit.*`.
struct EpisodeLimits {
  int32_t max_turns = 8;
  int32_t max_turn_tokens = 512;  // sampled tokens of one turn; reaching it ends the turn, not the episode
  int32_t max_sampled_tokens = 4096;  // of the whole episode
  int32_t max_observation_tokens = 16384;
  int32_t max_context_tokens = 0;  // 0: the model's own
  double reset_timeout_seconds = 60;
  double step_timeout_seconds = 60;
  double generate_timeout_seconds = 600;
  double reward_timeout_seconds = 60;
  double close_timeout_seconds = 30;
  double episode_timeout_seconds = 1800;
};

struct EpisodeSettings {
  SamplingParameters sampling;
  EpisodeLimits limits;
  uint64_t run_seed = 0;
  RandomPurpose purpose = RandomPurpose::kTrain;
};

// Runs one episode from reset to reward. Everything that goes wrong in its world ends up in the record's
// failure; only Cancelled (with the environment closed) and broken promises of Stoker itself are thrown.
class EpisodeRunner {
 public:
  // References must outlive the object. `rewards` are summed with `reward_weights` (empty: all 1).
  EpisodeRunner(EpisodeSettings settings, Engine& engine, const EnvironmentKind& environment_kind,
                Agent& agent, std::shared_ptr<const Tokenizer> tokenizer, const Renderer& renderer,
                std::vector<std::unique_ptr<Reward>> rewards, std::vector<double> reward_weights = {});
  ~EpisodeRunner();

  // `resume_from`: a trajectory cut after whole turns; its turns are played to the environment and the tools
  // again, the tokens are taken as they are, and sampling goes on behind them. Observations that differ from
  // the recorded ones are the failure environment.replay_mismatch.
  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::optional<Trajectory> resume_from = std::nullopt);

  int64_t abandoned_environments() const;  // close() ran past its deadline

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker
