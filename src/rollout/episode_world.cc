#include "rollout/episode_world.h"

#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "async/collect.h"
#include "async/timeout.h"
#include "base/error.h"
#include "base/log.h"
#include "rollout/deadline.h"
#include "rollout/tool_latency.h"

namespace stoker {
namespace {

constexpr const char* kNoException = "something that is no std::exception";

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// These own what they touch, so that they may be abandoned.
Task<Result<Done>> admit_to_environment(std::shared_ptr<Environment> environment,
                                        std::shared_ptr<EpisodeData> data) {
  co_await environment->admit(data->task, data->record.id);
  co_return Done();
}

Task<Result<Observation>> reset_environment(std::shared_ptr<Environment> environment,
                                            std::shared_ptr<EpisodeData> data, uint64_t seed) {
  co_return co_await environment->reset(data->task, seed);
}

Task<Result<Observation>> step_environment(std::shared_ptr<Environment> environment, Action action) {
  co_return co_await environment->step(action);
}

Task<> close_environment(Duration limit, std::shared_ptr<Environment> environment,
                         std::shared_ptr<bool> in_time) {
  *in_time = co_await with_timeout(limit, environment->close());
}

Task<Result<RewardResult>> score_with(Reward* reward, std::shared_ptr<EpisodeData> data, Pool* blocking) {
  const EpisodeView view{.task = data->task,
                         .messages = data->messages,
                         .record = data->record,
                         .blocking = *blocking,
                         .own_score = data->own_score ? &*data->own_score : nullptr,
                         .prompt_messages = data->prompt_messages};
  co_return co_await reward->score(view);
}

Task<Result<RewardResult>> own_score(std::shared_ptr<Environment> environment,
                                     std::shared_ptr<EpisodeData> data) {
  co_return co_await environment->score(data->record.failure);
}

OutsideCall environment_call(const char* method, double limit_seconds) {
  return {.failure_class = FailureClass::kEnvironment,
          .task = method,
          .subject = "The environment's",
          .name = method,
          .limit_seconds = limit_seconds};
}

Task<Result<RewardResult>> score_in_time(Reward* reward, std::shared_ptr<EpisodeData> data,
                                         const WorldParts* parts) {
  const std::string name = reward->name();
  const OutsideCall about{.failure_class = FailureClass::kReward,
                          .task = "reward",
                          .subject = "The reward",
                          .name = name,
                          .limit_seconds = parts->settings.limits.reward_timeout_seconds};
  Result<RewardResult> result =
      co_await call_outside(parts->quarantine, about, score_with(reward, std::move(data), &parts->blocking));
  if (result && !std::isfinite(result->reward)) {
    co_return Failure{FailureClass::kReward, "not_finite",
                      fmt::format("The reward '{}' gave {}.", name, result->reward)};
  }
  co_return result;
}

}  // namespace

EpisodeWorld::EpisodeWorld(const EnvironmentKind& kind, const WorldParts& parts,
                           std::shared_ptr<EpisodeData> data)
    : kind_(kind), parts_(parts), data_(std::move(data)) {}

void EpisodeWorld::enter(TraceSpan what, const Executor& executor) const {
  if (data_->activity == nullptr) return;
  data_->activity->enter(what, 0, executor.now().time_since_epoch().count());
}

Task<std::optional<Failure>> EpisodeWorld::open() {
  enter(TraceSpan::kConstruct, co_await current_executor());
  if (std::optional<Failure> failure = make_environment()) co_return failure;
  const Result<Done> admitted = co_await call_outside(parts_.quarantine, environment_call("admit", kNoLimit),
                                                      admit_to_environment(environment_, data_));
  if (!admitted) co_return admitted.failure();
  co_return std::nullopt;
}

Task<Result<Observation>> EpisodeWorld::reset(uint64_t seed) {
  enter(TraceSpan::kReset, co_await current_executor());
  Result<Observation> first = co_await call_outside(
      parts_.quarantine, environment_call("reset", parts_.settings.limits.reset_timeout_seconds),
      reset_environment(environment_, data_, seed));
  if (!first) co_return first;
  try {
    for (Tool* tool : environment_->tools()) tools_.emplace_back(environment_, tool);
    tools_ = with_latency(std::move(tools_), parts_.settings.tool_latency, parts_.settings.run_seed,
                          data_->record.id);
  } catch (const std::exception& exception) {
    co_return environment_call("tools", 0).exception(exception.what());
  } catch (...) {
    co_return environment_call("tools", 0).exception(kNoException);
  }
  co_return first;
}

std::optional<Failure> EpisodeWorld::make_environment() {
  std::string thrown;
  try {
    environment_ = kind_.make(parts_.blocking);
    return std::nullopt;
  } catch (const std::exception& exception) {
    thrown = exception.what();
  } catch (...) {
    thrown = kNoException;
  }
  return Failure{FailureClass::kEnvironment, "exception", "Making the environment threw: " + thrown};
}

Task<Result<Observation>> EpisodeWorld::step(Action action) {
  return call_outside(parts_.quarantine,
                      environment_call("step", parts_.settings.limits.step_timeout_seconds),
                      step_environment(environment_, std::move(action)));
}

Task<> EpisodeWorld::score() {
  if (!environment_ || !environment_->has_own_score()) co_return;
  const OutsideCall about{.failure_class = FailureClass::kReward,
                          .task = "score",
                          .subject = "The environment's",
                          .name = "score",
                          .limit_seconds = parts_.settings.limits.reward_timeout_seconds};
  data_->own_score = co_await call_outside(parts_.quarantine, about, own_score(environment_, data_));
}

Task<bool> EpisodeWorld::close() {
  const std::shared_ptr<Environment> environment = std::exchange(environment_, nullptr);
  tools_.clear();
  if (!environment) co_return true;
  const Duration limit = limit_from_seconds(parts_.settings.limits.close_timeout_seconds);
  const bool unlimited = std::isinf(parts_.settings.limits.close_timeout_seconds);
  const Quarantine::OnCancellation cancellation{
      .token = co_await current_cancellation(),
      .grace = unlimited ? kUnlimitedCloseGrace : limit + kCancellationGrace,
      .tell_at_once = false};
  auto in_time = std::make_shared<bool>(false);
  try {
    co_await parts_.quarantine.finish_or_abandon({.limit = limit + kCancellationGrace},
                                                 close_environment(limit, environment, in_time),
                                                 "The environment's close", cancellation);
    co_return *in_time;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kResource) throw;
    log_warning("Episode {}: the environment's close threw: {}", data_->record.id.to_string(), error.what());
  } catch (const std::exception& exception) {
    log_warning("Episode {}: the environment's close threw: {}", data_->record.id.to_string(),
                exception.what());
  } catch (...) {
    log_warning("Episode {}: the environment's close threw.", data_->record.id.to_string());
  }
  co_return true;
}

Task<> score_episode(std::shared_ptr<EpisodeData> data, const std::vector<std::unique_ptr<Reward>>& rewards,
                     const std::vector<double>& weights, const WorldParts& parts) {
  std::vector<Result<RewardResult>> results;
  if (rewards.size() == 1) {
    results.push_back(co_await score_in_time(rewards[0].get(), data, &parts));
  } else {
    std::vector<Task<Result<RewardResult>>> calls;
    for (const auto& reward : rewards) calls.push_back(score_in_time(reward.get(), data, &parts));
    results = co_await collect_all(std::move(calls));
  }
  EpisodeRecord& record = data->record;
  double total = 0;
  bool success = false;
  bool scored = false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) {
      record.failure = results[i].failure();
      co_return;
    }
    if (!results[i]->scored) continue;
    scored = true;
    record.rewards[rewards[i]->name()] = results[i]->reward;
    total += weights[i] * results[i]->reward;
    success = success || results[i]->success;
  }
  if (!scored) {
    record.failure = Failure{FailureClass::kReward, "not_scored", "No reward scored the episode."};
    co_return;
  }
  record.reward = total;
  record.success = success;
}

}  // namespace stoker
