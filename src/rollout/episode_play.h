#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "async/pool.h"
#include "rollout/episode_world.h"

namespace stoker {

// What all episodes of a runner share. Everything must outlive the episodes.
struct EpisodeParts {
  const EpisodeSettings& settings;
  Engine& engine;
  Agent& agent;
  const Tokenizer& tokenizer;
  const Renderer& renderer;
  Pool& text_pool;  // renders what is too long for the loop thread
};

// The turns of one episode, from reset to its last: prompt, then sampled turn and reaction in turn. The
// trajectory grows in `data`, so that what was made is there on every way out.
class EpisodePlay {
 public:
  EpisodePlay(const EpisodeParts& parts, EpisodeWorld& world, std::shared_ptr<EpisodeData> data,
              std::shared_ptr<const Trajectory> recorded, Executor& executor);

  // Why the episode ended; empty: done. Throws Cancelled and what the engine or the agent throws.
  Task<std::optional<Failure>> run();

 private:
  // The most tokens that a turn may sample, and what ends the episode when a turn reaches it.
  struct TurnBudget {
    int32_t tokens = 0;
    std::optional<Failure> exhausted;  // empty: the turn ends, the episode goes on
  };

  // What came of a turn.
  struct Reaction {
    bool done = false;
    size_t messages = 0;  // how many of the conversation's last messages the world said
  };

  Task<std::optional<Failure>> open();
  Task<std::optional<Failure>> sample_turn(int32_t turn);
  Task<std::optional<Failure>> generate(int32_t turn, int32_t max_tokens);
  void copy_recorded(const Span& span);
  Task<Result<Reaction>> react(int32_t turn);
  Task<std::optional<Failure>> extend(int32_t turn, size_t count);
  std::optional<Failure> append_suffix(int32_t turn, const RenderedTokens& suffix);

  TurnBudget turn_budget() const;
  GenerateRequest request(int32_t turn, int32_t max_tokens) const;
  std::string turn_text() const;
  std::optional<Failure> check_recorded(std::span<const int32_t> tokens) const;
  bool is_recorded(int32_t turn) const { return turn < static_cast<int32_t>(recorded_turns_.size()); }
  int64_t now() const;

  const EpisodeParts& parts_;
  const EpisodeLimits& limits_;
  EpisodeWorld& world_;
  std::shared_ptr<EpisodeData> data_;
  Trajectory& trajectory_;
  std::shared_ptr<const Trajectory> recorded_;
  std::vector<Span> recorded_turns_;  // the whole ones: an aborted turn is sampled again
  Executor& executor_;
  int32_t observation_tokens_ = 0;
};

}  // namespace stoker
