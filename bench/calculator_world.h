#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/task.h"
#include "engine/scripted_engine.h"
#include "environment/environment.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "text/chatml_renderer.h"

namespace stoker {

// Conversations with a calculator, for what orchestration costs beside the model: a ScriptedEngine says what
// the policy says; renderer, tokenizer, parser, tool and the episode loop are the real ones. Each turn but
// the last calls the calculator, the last one answers.
struct CalculatorConversation {
  int32_t turns = 8;
  std::string question = "What is 37*48+12?";
  std::string expression = "37*48+12";
  std::string answer = "The answer is 1788.";
};

class CalculatorWorld {
 public:
  explicit CalculatorWorld(CalculatorConversation conversation);

  // Seconds before a turn's tokens; called once a turn.
  using Latency = std::function<Duration(const StreamKey& stream)>;
  ScriptedEngine engine(Latency latency) const;
  // `engine`, `blocking`, this and `activity`, if any, must outlive it.
  std::unique_ptr<EpisodeRunner> runner(Engine& engine, Pool& blocking,
                                        RunActivity* activity = nullptr) const;
  const TaskSource& tasks() const { return *tasks_; }
  int32_t turns() const { return conversation_.turns; }

  // A conversation whose prompt has `prompt_tokens`, each of whose calls has `sampled_tokens` and each of
  // whose results, with the template's text around it, `observed_tokens`. Throws Error(kInternal) when the
  // template alone has more.
  static CalculatorConversation of_size(int32_t turns, int32_t prompt_tokens, int32_t sampled_tokens,
                                        int32_t observed_tokens);

 private:
  CalculatorConversation conversation_;
  TokenizerPtr tokenizer_;
  ChatMlRenderer renderer_;
  std::vector<int32_t> call_;
  std::vector<int32_t> last_turn_;
  std::unique_ptr<EnvironmentKind> kind_;
  std::unique_ptr<TaskSource> tasks_;
  std::unique_ptr<Agent> agent_;
};

struct RolloutScale {
  int32_t concurrent = 0;        // episodes at once
  int32_t groups_per_batch = 0;  // of kGroupSize episodes
  int32_t batches = 0;
  int32_t max_ahead = 1;
  RunActivity* activity = nullptr;
  std::function<void(int64_t episodes)> after_batch;  // with the episodes of all batches so far; may be empty

  static constexpr int32_t kGroupSize = 8;
};

// Rolls out so many batches through the real orchestrator, controller and event log, without a learner. The
// turns of all batches. Throws Error(kInternal) when an episode does not go as written.
Task<int64_t> roll_out(const CalculatorWorld& world, ScriptedEngine& engine, RolloutScale scale);

// Processor time of the whole process so far.
double process_cpu_seconds();

}  // namespace stoker
