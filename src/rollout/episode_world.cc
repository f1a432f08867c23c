#include "rollout/episode_world.h"

#include <cmath>
#include <exception>
#include <utility>

#include <fmt/core.h>

#include "async/collect.h"
#include "base/log.h"
#include "rollout/deadline.h"

namespace stoker {
namespace {

// These own what they touch, so that they may be abandoned.
Task<Result<Observation>> reset_environment(std::shared_ptr<Environment> environment,
                                            std::shared_ptr<EpisodeData> data, uint64_t seed) {
  co_return co_await environment->reset(data->task, seed);
}

Task<Result<Observation>> step_environment(std::shared_ptr<Environment> environment, Action action) {
  co_return co_await environment->step(action);
}

Task<Result<AgentTurn>> interpret_turn(std::shared_ptr<Environment> environment, Agent* agent,
                                       std::string text, std::vector<Tool*> tools) {
  co_return co_await agent->interpret(text, tools);
}

Task<> close_environment(std::shared_ptr<Environment> environment) { co_await environment->close(); }

Task<Result<RewardResult>> score_with(Reward* reward, std::shared_ptr<EpisodeData> data) {
  const EpisodeView view{.task = data->task, .messages = data->messages, .record = data->record};
  co_return co_await reward->score(view);
}

// Calls into the world: a deadline that passes and an exception become failures of `failure_class`.
template <typename T>
Task<Result<T>> call_outside(Quarantine& quarantine, FailureClass failure_class, std::string what,
                             double seconds, Task<Result<T>> call) {
  const CancellationToken cancellation = co_await current_cancellation();
  std::string thrown;
  try {
    std::optional<Result<T>> result =
        co_await call_within(quarantine, limit_from_seconds(seconds), std::move(call), what);
    if (result) co_return *std::move(result);
    co_return Failure{failure_class, "timeout", fmt::format("{} did not end within {} s.", what, seconds)};
  } catch (const std::exception& exception) {
    cancellation.throw_if_requested();
    thrown = exception.what();
  } catch (...) {
    thrown = "something that is no std::exception";
  }
  co_return Failure{failure_class, "exception", fmt::format("{} threw: {}", what, thrown)};
}

Task<Result<RewardResult>> score_in_time(Reward* reward, std::shared_ptr<EpisodeData> data,
                                         const EpisodeLimits* limits, Quarantine* quarantine) {
  const std::string what = fmt::format("The reward '{}'", reward->name());
  Result<RewardResult> result =
      co_await call_outside(*quarantine, FailureClass::kReward, what, limits->reward_timeout_seconds,
                            score_with(reward, std::move(data)));
  if (result && !std::isfinite(result->reward)) {
    co_return Failure{FailureClass::kReward, "not_finite", fmt::format("{} gave {}.", what, result->reward)};
  }
  co_return result;
}

}  // namespace

EpisodeWorld::EpisodeWorld(const EnvironmentKind& kind, const EpisodeLimits& limits, Quarantine& quarantine,
                           std::shared_ptr<EpisodeData> data)
    : kind_(kind), limits_(limits), quarantine_(quarantine), data_(std::move(data)) {}

Task<Result<Observation>> EpisodeWorld::reset(uint64_t seed) {
  try {
    environment_ = kind_.make();
  } catch (const std::exception& exception) {
    co_return Failure{FailureClass::kEnvironment, "exception",
                      fmt::format("The environment could not be made: {}", exception.what())};
  }
  Result<Observation> first =
      co_await call_outside(quarantine_, FailureClass::kEnvironment, "The environment's reset",
                            limits_.reset_timeout_seconds, reset_environment(environment_, data_, seed));
  if (!first) co_return first.failure();
  try {
    tools_ = environment_->tools();
  } catch (const std::exception& exception) {
    co_return Failure{FailureClass::kEnvironment, "exception",
                      fmt::format("The environment's tools() threw: {}", exception.what())};
  }
  co_return first;
}

Task<Result<Observation>> EpisodeWorld::step(Action action) {
  return call_outside(quarantine_, FailureClass::kEnvironment, "The environment's step",
                      limits_.step_timeout_seconds, step_environment(environment_, std::move(action)));
}

Task<Result<AgentTurn>> EpisodeWorld::interpret(Agent& agent, std::string text, TimePoint deadline) {
  // Tools have deadlines of their own; this one is for a tool that does not heed them.
  const Duration left = deadline - (co_await current_executor()).now();
  std::optional<Result<AgentTurn>> turn =
      co_await call_within(quarantine_, left, interpret_turn(environment_, &agent, std::move(text), tools_),
                           "The tools of a turn");
  if (turn) co_return *std::move(turn);
  co_return Failure{FailureClass::kTool, "timeout", "A tool went on after the episode's deadline."};
}

Task<bool> EpisodeWorld::close() {
  const std::shared_ptr<Environment> environment = std::exchange(environment_, nullptr);
  tools_.clear();
  if (!environment) co_return true;
  try {
    co_return co_await quarantine_.finish_or_abandon(limit_from_seconds(limits_.close_timeout_seconds),
                                                     close_environment(environment),
                                                     "The environment's close");
  } catch (const std::exception& exception) {
    log_warning("Episode {}: the environment's close threw: {}", data_->record.id.to_string(),
                exception.what());
  } catch (...) {
    log_warning("Episode {}: the environment's close threw.", data_->record.id.to_string());
  }
  co_return true;
}

Task<> score_episode(std::shared_ptr<EpisodeData> data, const std::vector<std::unique_ptr<Reward>>& rewards,
                     const std::vector<double>& weights, const EpisodeLimits& limits,
                     Quarantine& quarantine) {
  std::vector<Result<RewardResult>> results;
  if (rewards.size() == 1) {
    results.push_back(co_await score_in_time(rewards[0].get(), data, &limits, &quarantine));
  } else {
    std::vector<Task<Result<RewardResult>>> calls;
    for (const auto& reward : rewards)
      calls.push_back(score_in_time(reward.get(), data, &limits, &quarantine));
    results = co_await collect_all(std::move(calls));
  }
  EpisodeRecord& record = data->record;
  double total = 0;
  bool success = false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) {
      record.failure = results[i].failure();
      co_return;
    }
    record.rewards[rewards[i]->name()] = results[i]->reward;
    total += weights[i] * results[i]->reward;
    success = success || results[i]->success;
  }
  record.reward = total;
  record.success = success;
}

}  // namespace stoker
