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

Task<> close_environment(std::shared_ptr<Environment> environment) { co_await environment->close(); }

Task<Result<RewardResult>> score_with(Reward* reward, std::shared_ptr<EpisodeData> data) {
  const EpisodeView view{.task = data->task, .messages = data->messages, .record = data->record};
  co_return co_await reward->score(view);
}

OutsideCall environment_call(const char* method, double limit_seconds) {
  return {.failure_class = FailureClass::kEnvironment,
          .task = method,
          .subject = "The environment's",
          .name = method,
          .limit_seconds = limit_seconds};
}

Task<Result<RewardResult>> score_in_time(Reward* reward, std::shared_ptr<EpisodeData> data,
                                         const EpisodeLimits* limits, Quarantine* quarantine) {
  const std::string name = reward->name();
  const OutsideCall about{.failure_class = FailureClass::kReward,
                          .task = "reward",
                          .subject = "The reward",
                          .name = name,
                          .limit_seconds = limits->reward_timeout_seconds};
  Result<RewardResult> result =
      co_await call_outside(*quarantine, about, score_with(reward, std::move(data)));
  if (result && !std::isfinite(result->reward)) {
    co_return Failure{FailureClass::kReward, "not_finite",
                      fmt::format("The reward '{}' gave {}.", name, result->reward)};
  }
  co_return result;
}

}  // namespace

EpisodeWorld::EpisodeWorld(const EnvironmentKind& kind, const EpisodeLimits& limits, Quarantine& quarantine,
                           std::shared_ptr<EpisodeData> data)
    : kind_(kind), limits_(limits), quarantine_(quarantine), data_(std::move(data)) {}

Task<Result<Observation>> EpisodeWorld::reset(uint64_t seed) {
  std::string thrown;
  try {
    environment_ = kind_.make();
    Result<Observation> first =
        co_await call_outside(quarantine_, environment_call("reset", limits_.reset_timeout_seconds),
                              reset_environment(environment_, data_, seed));
    if (!first) co_return first;
    for (Tool* tool : environment_->tools()) tools_.emplace_back(environment_, tool);
    co_return first;
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& exception) {
    thrown = exception.what();
  } catch (...) {
    thrown = "something that is no std::exception";
  }
  co_return Failure{FailureClass::kEnvironment, "exception", "Making the environment threw: " + thrown};
}

Task<Result<Observation>> EpisodeWorld::step(Action action) {
  return call_outside(quarantine_, environment_call("step", limits_.step_timeout_seconds),
                      step_environment(environment_, std::move(action)));
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
