#include "environment/command/command_environment.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "text/json_schema.h"

namespace stoker {
namespace {

constexpr int kLostUntilAlone = 2;  // see WorkerPool

RewardResult to_reward(const ScoreAnswer& answer, bool positive_is_success) {
  const bool success = answer.success.value_or(positive_is_success && *answer.reward > 0);
  return {.reward = *answer.reward, .success = success};
}

Json no_params() { return Json::object(); }

}  // namespace

std::string owner_name(const std::string& task_id, const EpisodeId& id) {
  return fmt::format("{} {}.{}", task_id, id.task_ordinal, id.sample);
}

Json task_to_json(const TaskRow& task) { return Json::object({{"id", task.id}, {"fields", task.fields}}); }

Task<std::vector<ToolSchema>> ask_for_tools(std::shared_ptr<WorkerPool> pool, std::string environment) {
  Json params = no_params();
  if (!environment.empty()) params.set("environment", environment);
  const Result<Json> answer = co_await pool->ask("tools", std::move(params));
  Result<std::vector<ToolSchema>> tools =
      answer ? decode_tools(*answer) : Result<std::vector<ToolSchema>>(answer.failure());
  if (!tools) {
    throw input_error(
        fmt::format("{}: the tools cannot be listed: {}", pool->section(), tools.failure().message));
  }
  for (const ToolSchema& tool : *tools) {
    JsonSchema(tool.parameters, fmt::format("{}: tool '{}'", pool->section(), tool.name));
  }
  co_return *std::move(tools);
}

Task<Result<ToolResult>> OutsideTool::call(const Json& arguments) {
  Json params = Json::object({{"tool", schema_.name}, {"arguments", arguments}});
  Result<Json> answer = Json();
  if (worker_) {
    params.set("episode", episode_);
    answer = co_await worker_->ask("call", std::move(params));
  } else {
    answer = co_await pool_->ask("call", std::move(params), pool_->lost_by(owner_));
    if (!answer && answer.failure().reason == "process_ended") pool_->add_loss(owner_);
  }
  if (!answer) co_return answer.failure();
  co_return decode_call(*answer);
}

// `state` is null for reset. All of them must live until it is done.
Task<Result<Json>> CommandEnvironment::begin(const char* method, const TaskRow& task, uint64_t seed,
                                             const Json* state) {
  if (!place_) place_ = co_await outside_->pool->lease();
  episode_ = outside_->pool->next_episode();
  task_ = task_to_json(task);
  Json params =
      Json::object({{"episode", episode_}, {"environment", outside_->offered.name}, {"task", task_}});
  params.set("seed", static_cast<unsigned long long>(seed & kProtocolSeedMask));
  if (state != nullptr) params.set("state", *state);
  co_return co_await place_.worker().ask(method, std::move(params));
}

Task<> CommandEnvironment::admit(const TaskRow& task, const EpisodeId& id) {
  place_ = co_await outside_->pool->lease(owner_name(task.id, id));
}

void CommandEnvironment::offer(const std::optional<std::vector<ToolSchema>>& of_episode) {
  for (const ToolSchema& tool : of_episode ? *of_episode : outside_->tools) {
    tools_.push_back(std::make_unique<OutsideTool>(tool, place_.shared_worker(), episode_));
  }
}

Task<Result<Observation>> CommandEnvironment::reset(const TaskRow& task, uint64_t seed) {
  const Result<Json> answer = co_await begin("reset", task, seed, nullptr);
  if (!answer) co_return answer.failure();
  Result<ResetAnswer> reset = decode_reset(*answer);
  if (!reset) co_return reset.failure();
  offer(reset->tools);
  co_return std::move(reset->observation);
}

Task<Result<Done>> CommandEnvironment::restore(const TaskRow& task, uint64_t seed, const Json& state) {
  const Result<Json> answer = co_await begin("restore", task, seed, &state);
  if (!answer) co_return answer.failure();
  const Result<std::optional<std::vector<ToolSchema>>> tools = decode_restore(*answer);
  if (!tools) co_return tools.failure();
  offer(*tools);
  co_return Done();
}

Task<Result<Json>> CommandEnvironment::snapshot() {
  if (!place_) co_return Failure{FailureClass::kEnvironment, "not_reset", "There is no open episode."};
  const Result<Json> answer = co_await place_.worker().ask("snapshot", Json::object({{"episode", episode_}}));
  if (!answer) co_return answer.failure();
  co_return decode_snapshot(*answer);
}

Task<Result<Observation>> CommandEnvironment::step(const Action& action) {
  if (!place_) co_return Failure{FailureClass::kEnvironment, "not_reset", "There is no open episode."};
  Json params = Json::object({{"episode", episode_}, {"turn", action.turn}, {"text", action.text}});
  if (action.content != action.text) params.set("content", action.content);
  if (!action.tool_calls.empty()) {
    const Message turn{.role = Role::kAssistant, .tool_calls = action.tool_calls};
    params.set("tool_calls", message_to_json(turn).at("tool_calls"));
    params.set("tool_results", messages_to_json(action.tool_results));
  }
  const Result<Json> answer = co_await place_.worker().ask("step", std::move(params));
  if (!answer) co_return answer.failure();
  co_return decode_step(*answer);
}

Task<Result<RewardResult>> CommandEnvironment::score(const std::optional<Failure>& ending) {
  if (!place_) co_return Failure{FailureClass::kReward, "not_reset", "There is no open episode."};
  Json params = Json::object({{"reward", outside_->offered.name}, {"episode", episode_}, {"task", task_}});
  if (ending) params.set("outcome", ending->name());
  const Result<Json> answer = co_await place_.worker().ask("score", std::move(params));
  if (!answer) co_return answer.failure();
  const Result<ScoreAnswer> score = decode_score(*answer);
  if (!score) co_return score.failure();
  if (!score->reward) co_return RewardResult{.scored = false};
  co_return to_reward(*score, true);
}

// The place is free once the process has answered, even if the caller has given up waiting by then.
Task<> CommandEnvironment::close() {
  if (episode_.empty()) place_.release_unused();
  if (!place_) co_return;
  const std::shared_ptr<Worker> worker = place_.shared_worker();
  const std::string episode = episode_;
  const Result<Json> answer = co_await worker->ask_uncancellable(
      "close", Json::object({{"episode", episode}}), place_.release_later());
  if (!answer && answer.failure().reason != "process_ended") {
    log_warning("[{}] close of episode {}: {}", worker->name(), episode, answer.failure().message);
  }
}

std::vector<Tool*> CommandEnvironment::tools() {
  std::vector<Tool*> tools;
  for (const auto& tool : tools_) tools.push_back(tool.get());
  return tools;
}

Task<Result<RewardResult>> OwnScoreReward::score(const EpisodeView& episode) {
  if (episode.own_score == nullptr) {
    co_return Failure{FailureClass::kReward, "missing",
                      fmt::format("The environment gave no score '{}' of its own.", name_)};
  }
  co_return *episode.own_score;
}

// The answer depends on the params alone, so a process that ended under it is no reason to go without: it is
// asked for again, at last alone in a process. The second time any will do: all of it has one deadline, and a
// further process takes its time to start.
Task<Result<Json>> OutsideReward::ask(const EpisodeView& episode) {
  Json params = Json::object({{"reward", name_}, {"episode", episode.record.id.to_string()}});
  params.set("task", task_to_json(episode.task));
  params.set("messages", messages_to_json(episode.messages));
  params.set("prompt_messages", static_cast<unsigned long long>(episode.prompt_messages));
  params.set("outcome", episode.record.failure ? episode.record.failure->name() : "done");
  for (int lost = 0;; ++lost) {
    Result<Json> answer = co_await pool_->ask("score", params, lost < kLostUntilAlone ? 0 : lost);
    if (answer || answer.failure().reason != "process_ended" || lost == kLostUntilAlone) co_return answer;
  }
}

Task<Result<RewardResult>> OutsideReward::score(const EpisodeView& episode) {
  if (may_be_dropped_ && !pool_->given_up().empty()) co_return RewardResult{.scored = false};
  Result<Json> answer = Json();
  try {
    answer = co_await ask(episode);
  } catch (const Error& error) {
    // It was given up while this waited.
    if (!may_be_dropped_ || error.kind() != ErrorKind::kResource || pool_->given_up().empty()) throw;
    co_return RewardResult{.scored = false};
  }
  if (!answer) {
    const Failure& failure = answer.failure();
    co_return Failure{FailureClass::kReward, failure.reason, failure.message};
  }
  const Result<ScoreAnswer> score = decode_score(*answer);
  if (!score) co_return Failure{FailureClass::kReward, score.failure().reason, score.failure().message};
  if (!score->reward) co_return RewardResult{.scored = false};
  co_return to_reward(*score, positive_is_success_);
}

}  // namespace stoker
