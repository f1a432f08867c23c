#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/task.h"
#include "base/json.h"
#include "base/result.h"
#include "environment/tool.h"
#include "text/message.h"
#include "trajectory/episode_record.h"

namespace stoker {

class Pool;

// One row of the task stream.
struct TaskRow {
  std::string id;  // unique within its environment
  Json fields;     // the row as an object: prompt or messages, answer, ...
};

// What the environment tells the model. An empty list with `done` set ends the episode without a further
// turn.
struct Observation {
  std::vector<Message> messages;
  bool done = false;
};

// One finished turn of the policy, as the environment sees it: calls have been run by the agent already.
struct Action {
  int32_t turn = 0;
  std::string text;     // decoded, without the end token
  std::string content;  // without reasoning and calls
  std::vector<ToolCall> tool_calls;
  std::vector<Message> tool_results;
};

struct RewardResult {
  double reward = 0;
  bool success = false;
  bool scored = true;  // false: this reward says nothing here, and is left out of the sum
};

// The outside world of one episode. Calls come one at a time: admit, reset, then steps, then close exactly
// once on every path out, cancellation included. Each but admit is given a deadline by the caller. Thrown
// exceptions count as environment failures, except Error(kResource), which ends the run. All runs on the loop
// thread, so nothing here may block: what does goes through the pool given to EnvironmentKind::make.
class Environment {
 public:
  virtual ~Environment() = default;

  // Waits until the world has room for the episode, however long that takes; at most once, before reset, if
  // at all. `id` is the episode's own: a retry has the same task and sample and another attempt.
  virtual Task<> admit(const TaskRow& task, const EpisodeId& id);
  // The first messages. `seed` is for the environment's own randomness; the same row and seed give the same
  // episode.
  virtual Task<Result<Observation>> reset(const TaskRow& task, uint64_t seed) = 0;
  virtual Task<Result<Observation>> step(const Action& action) = 0;
  virtual Task<> close() = 0;

  // Whether this environment has a verdict of its own on its episode. If so, score() is called at most once,
  // before close, for an episode whose ending is scored (trajectory/failure_rules.h); rewards see what it
  // gave as EpisodeView::own_score. `ending`: empty when the episode is done.
  virtual bool has_own_score() const { return false; }
  virtual Task<Result<RewardResult>> score(const std::optional<Failure>& ending);

  // Tools that the model may call in this episode; owned by the environment, valid until close.
  virtual std::vector<Tool*> tools() { return {}; }
};

// What a reward sees: everything that happened, and where it may block.
struct EpisodeView {
  const TaskRow& task;
  const std::vector<Message>& messages;  // the whole conversation
  const EpisodeRecord& record;
  Pool& blocking;
  const Result<RewardResult>* own_score = nullptr;  // of the environment; null: it gave none
  size_t prompt_messages = 0;                       // how many of `messages` came before the first turn
};

// Scores a finished episode. A Failure means "not scored", which is never zero.
class Reward {
 public:
  virtual ~Reward() = default;
  virtual std::string name() const = 0;
  virtual Task<Result<RewardResult>> score(const EpisodeView& episode) = 0;
};

}  // namespace stoker
