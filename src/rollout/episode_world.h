#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/pool.h"
#include "async/quarantine.h"
#include "environment/registry.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "rollout/run_activity.h"

namespace stoker {

// What one episode is about and what has happened in it. Shared with calls into the world outside, which may
// outlive the episode when they hang.
struct EpisodeData {
  TaskRow task;
  std::vector<Message> messages;  // the whole conversation
  EpisodeRecord record;
  EpisodeActivity* activity = nullptr;  // is told what the world does, if any; not by calls that outlive it
  size_t prompt_messages = 0;           // of messages: before the first turn
  std::optional<Result<RewardResult>> own_score;  // of the environment
};

// What all episodes of a runner share around the world. Must outlive the episodes and every abandoned call.
struct WorldParts {
  const EpisodeSettings& settings;
  Quarantine& quarantine;
  Pool& blocking;
};

// How long a close without a limit of its own may still go on once the run is cancelled.
constexpr Duration kUnlimitedCloseGrace = std::chrono::seconds(30);

// The world outside of one episode: its environment and tools. Each call has its deadline; what hangs, throws
// or fails comes back as a Failure of its class. Thrown are only Cancelled (of the caller) and
// Error(kResource).
class EpisodeWorld {
 public:
  // References must outlive the object and every abandoned call.
  EpisodeWorld(const EnvironmentKind& kind, const WorldParts& parts, std::shared_ptr<EpisodeData> data);

  // Makes the environment and waits until there is room for the episode. environment.exception.
  Task<std::optional<Failure>> open();
  // After open(). environment.timeout, environment.exception, or what it gave.
  Task<Result<Observation>> reset(uint64_t seed);
  Task<Result<Observation>> step(Action action);
  // The environment's own verdict, if it has one, into the data: for an ending that is scored, before close.
  Task<> score();
  // Closes the environment if there is one: at most once, whatever the caller's cancellation says. False: it
  // did not end in time and was abandoned. What close throws is logged.
  Task<bool> close();

  // Of the environment; after reset, until close.
  const Tools& tools() const { return tools_; }

 private:
  std::optional<Failure> make_environment();
  void enter(TraceSpan what, const Executor& executor) const;

  const EnvironmentKind& kind_;
  const WorldParts& parts_;
  std::shared_ptr<EpisodeData> data_;
  std::shared_ptr<Environment> environment_;
  Tools tools_;
};

// Scores a finished episode: sets reward, rewards and success, or the failure reward.* (timeout, exception,
// not_finite, or what the reward gave). The rewards run side by side.
Task<> score_episode(std::shared_ptr<EpisodeData> data, const std::vector<std::unique_ptr<Reward>>& rewards,
                     const std::vector<double>& weights, const WorldParts& parts);

}  // namespace stoker
