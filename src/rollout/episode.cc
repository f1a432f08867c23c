#include "rollout/episode.h"

#include <exception>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "async/timeout.h"
#include "engine/request_check.h"
#include "rollout/deadline.h"
#include "rollout/episode_play.h"
#include "rollout/episode_world.h"
#include "rollout/option_check.h"

namespace stoker {
namespace {

void check_limits(const EpisodeLimits& limits) {
  check_at_least("max_turns", limits.max_turns, 1);
  check_at_least("max_turn_tokens", limits.max_turn_tokens, 1);
  check_at_least("max_sampled_tokens", limits.max_sampled_tokens, 1);
  check_at_least("max_observation_tokens", limits.max_observation_tokens, 0);
  check_at_least("max_context_tokens", limits.max_context_tokens, 0);
  check_limit_seconds("reset_timeout_seconds", limits.reset_timeout_seconds);
  check_limit_seconds("step_timeout_seconds", limits.step_timeout_seconds);
  check_limit_seconds("generate_timeout_seconds", limits.generate_timeout_seconds);
  check_limit_seconds("reward_timeout_seconds", limits.reward_timeout_seconds);
  check_limit_seconds("close_timeout_seconds", limits.close_timeout_seconds);
  check_limit_seconds("episode_timeout_seconds", limits.episode_timeout_seconds);
}

}  // namespace

struct EpisodeRunner::State {
  State(EpisodeSettings given, Engine& engine, const EnvironmentKind& environment_kind, Agent& agent,
        std::shared_ptr<const Tokenizer> shared_tokenizer, const Renderer& renderer, Pool& blocking_pool)
      : settings(std::move(given)),
        kind(environment_kind),
        tokenizer(std::move(shared_tokenizer)),
        blocking(blocking_pool),
        parts{settings, engine, agent, *tokenizer, renderer, text_pool} {}

  EpisodeSettings settings;
  const EnvironmentKind& kind;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::unique_ptr<Reward>> rewards;
  std::vector<double> weights;
  Pool& blocking;
  Pool text_pool{{.threads = 1, .name = "text"}};
  EpisodeParts parts;
  std::optional<Quarantine> quarantine;  // made by the first episode, on its executor
  std::optional<WorldParts> world;       // with it
  int64_t abandoned_environments = 0;
};

EpisodeRunner::EpisodeRunner(EpisodeSettings settings, Engine& engine,
                             const EnvironmentKind& environment_kind, Agent& agent,
                             std::shared_ptr<const Tokenizer> tokenizer, const Renderer& renderer,
                             Pool& blocking, std::vector<std::unique_ptr<Reward>> rewards,
                             std::vector<double> reward_weights) {
  check_limits(settings.limits);
  check(settings.failures);
  validate(settings.sampling);
  if (rewards.empty()) throw input_error("An episode needs at least one reward; the environment gives none.");
  if (reward_weights.empty()) reward_weights.assign(rewards.size(), 1.0);
  if (reward_weights.size() != rewards.size()) {
    std::string names;
    for (const auto& reward : rewards) names += (names.empty() ? "" : ", ") + reward->name();
    throw input_error(
        fmt::format("There are {} reward weights for {} rewards ({}); give one for each, or none.",
                    reward_weights.size(), rewards.size(), names));
  }
  state_ = std::make_unique<State>(std::move(settings), engine, environment_kind, agent, std::move(tokenizer),
                                   renderer, blocking);
  state_->rewards = std::move(rewards);
  state_->weights = std::move(reward_weights);
}

EpisodeRunner::~EpisodeRunner() = default;

// The turns, and the close on every way out. Throws Cancelled and what the engine or the agent threw.
Task<> EpisodeRunner::play(std::shared_ptr<EpisodeData> data, std::shared_ptr<const Trajectory> resume_from) {
  State& state = *state_;
  const EpisodeLimits& limits = state.settings.limits;
  Executor& executor = co_await current_executor();
  const auto enter = [&](TraceSpan what) {
    const int32_t turns = data->record.trajectory.turn_count();
    data->activity->enter(what, turns, executor.now().time_since_epoch().count());
  };
  EpisodeWorld world(state.kind, *state.world, data);
  EpisodePlay play(state.parts, world, data, std::move(resume_from), executor);
  std::exception_ptr thrown;
  try {
    std::optional<Failure>& failure = data->record.failure;
    failure = co_await world.open();
    if (!failure) {
      const TimePoint deadline = executor.now() + limit_from_seconds(limits.episode_timeout_seconds);
      std::optional<std::optional<Failure>> ended = co_await with_deadline(deadline, play.run());
      failure =
          ended ? *std::move(ended)
                : Failure{FailureClass::kLimit, "wall_clock",
                          fmt::format("The episode took more than {} s.", limits.episode_timeout_seconds)};
    }
    if (state.settings.failures.scores(data->record.failure)) co_await world.score();
  } catch (...) {
    thrown = std::current_exception();
  }
  enter(TraceSpan::kClose);
  try {
    if (!co_await world.close()) ++state.abandoned_environments;
  } catch (...) {
    if (!thrown) thrown = std::current_exception();
  }
  if (thrown) std::rethrow_exception(thrown);
}

Task<EpisodeRecord> EpisodeRunner::run(EpisodeId id, TaskRow task,
                                       std::shared_ptr<const Trajectory> resume_from) {
  State& state = *state_;
  Executor& executor = co_await current_executor();
  if (!state.quarantine) {
    state.quarantine.emplace(executor);
    state.world.emplace(WorldParts{state.settings, *state.quarantine, state.blocking});
  }
  auto data = std::make_shared<EpisodeData>();
  EpisodeRecord& record = data->record;
  data->task = std::move(task);
  record.id = id;
  record.task_id = data->task.id;
  record.purpose = state.settings.purpose == RandomPurpose::kEvaluate ? "evaluate" : "train";
  record.start_time = executor.now().time_since_epoch().count();
  EpisodeActivity activity(executor, state.settings.activity, id,
                           state.settings.purpose == RandomPurpose::kEvaluate);
  data->activity = &activity;
  co_await play(data, std::move(resume_from));
  if (state.settings.failures.scores(record.failure)) {
    activity.enter(TraceSpan::kReward, record.trajectory.turn_count(),
                   executor.now().time_since_epoch().count());
    co_await score_episode(data, state.rewards, state.weights, *state.world);
  }
  record.end_time = executor.now().time_since_epoch().count();
  activity.finish(record);
  // A call that was abandoned still reads the record.
  if (data.use_count() > 1) co_return EpisodeRecord(record);
  co_return std::move(record);
}

int64_t EpisodeRunner::abandoned_environments() const { return state_->abandoned_environments; }
int64_t EpisodeRunner::abandoned_calls() const {
  return state_->quarantine ? static_cast<int64_t>(state_->quarantine->abandoned()) : 0;
}

}  // namespace stoker
