#include "simulation/timed_player.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "async/sleep.h"

namespace stoker {
namespace {

// Keeps the tokens of a turn in a trajectory.
class TrajectorySink final : public TokenSink {
 public:
  explicit TrajectorySink(Trajectory& trajectory) : trajectory_(trajectory) {}
  void accept(const SampledToken& token) override {
    trajectory_.append_sampled(token.id, token.log_probability, token.version);
  }

 private:
  Trajectory& trajectory_;
};

// The context of an episode for as long as the object lives.
class HeldContext {
 public:
  explicit HeldContext(ProcessorSharingEngine& engine) : engine_(engine) {}
  ~HeldContext() { become(0); }
  HeldContext(const HeldContext&) = delete;
  HeldContext& operator=(const HeldContext&) = delete;
  void become(double tokens) { engine_.change_contexts(tokens - std::exchange(tokens_, tokens)); }

 private:
  ProcessorSharingEngine& engine_;
  double tokens_ = 0;
};

// At least one, and at most what a request can ask for.
int32_t whole_tokens(double tokens) {
  return static_cast<int32_t>(std::lround(std::clamp(tokens, 1.0, double{INT32_MAX})));
}

}  // namespace

TimedPlayer::TimedPlayer(const Scenario& scenario, Workload& workload, ProcessorSharingEngine& engine,
                         Engine& served, RunActivity& activity, Executor& executor)
    : scenario_(scenario),
      failures_{.run_seed = static_cast<uint64_t>(scenario.seed), .purpose = RandomPurpose::kEnvironment},
      workload_(workload),
      engine_(engine),
      served_(served),
      activity_(activity),
      executor_(executor),
      updated_(executor.now()) {}

Task<EpisodeRecord> TimedPlayer::run(EpisodeId id, TaskRow task, std::shared_ptr<const Trajectory>) {
  change_in_flight(1);
  struct Leave {
    TimedPlayer& player;
    EpisodeId id;
    ~Leave() {
      player.restarts_.erase(id);
      player.change_in_flight(-1);
    }
  } leave{*this, id};
  EpisodeActivity activity(executor_, &activity_, id, false);
  const CancellationToken cancellation = co_await current_cancellation();
  EpisodeRecord record{.id = id, .task_id = std::move(task.id)};
  bool ended = false;
  PlayedDigest played;
  while (!ended) {
    restarts_.erase(id);
    const CancellationToken restart = restarts_.try_emplace(id).first->second.token();
    record.trajectory = {};
    played = {};
    try {
      co_await with_cancellation(restart, play(record, activity, played));
      ended = true;
    } catch (const Cancelled&) {
      if (cancellation.requested() || !restart.requested()) throw;
    }
  }
  played_[id] = played;
  played_set_ += digest_of<4>({id.task_ordinal, id.sample, id.attempt, played.value()});
  if (!record.failure) record.reward = 1;
  record.end_time = executor_.now().time_since_epoch().count();
  activity.finish(record);
  co_return record;
}

Task<> TimedPlayer::play(EpisodeRecord& record, EpisodeActivity& activity, PlayedDigest& played) {
  const EpisodeId id = record.id;
  const auto now = [&] { return executor_.now().time_since_epoch().count(); };
  const double scale = workload_.scale(id.task_ordinal, id.sample);
  const double turn_tokens = scale * scenario_.tokens / scenario_.turns;
  record.trajectory.append(SpanKind::kPrompt, 0, std::vector<int32_t>{0});
  TrajectorySink sink(record.trajectory);
  HeldContext context(engine_);
  for (int turn = 0; turn < scenario_.turns; ++turn) {
    context.become(turn_tokens * (turn + 0.5));
    record.trajectory.begin_sampled(turn);
    activity.enter(TraceSpan::kDecode, turn, now());
    GenerateRequest request{.tokens = {0}};
    request.stop.max_tokens = whole_tokens(turn_tokens);
    const Result<Completion> completion = co_await served_.generate(std::move(request), sink);
    record.trajectory.close_sampled(completion->stop_reason);
    activity.enter(TraceSpan::kTool, turn, now());
    const int64_t tool_began = now();
    co_await sleep_for(from_seconds(scale * scenario_.tool_seconds / scenario_.turns));
    played.add_turn(completion->sampled_tokens, now() - tool_began);
    if (fails(id, turn)) {
      record.failure = Failure{FailureClass::kTool, "lost", "The simulated tool failed."};
      co_return;
    }
  }
}

PlayedDigest TimedPlayer::take_played(const EpisodeId& id) { return played_.extract(id).mapped(); }

bool TimedPlayer::fails(const EpisodeId& id, int turn) const {
  StreamKey key = failures_;
  key.task_ordinal = id.task_ordinal;
  key.sample = id.sample;
  key.attempt = id.attempt;
  return random_uniform(key, static_cast<uint64_t>(turn)) < scenario_.tool_failure_share;
}

void TimedPlayer::restart_all() {
  std::vector<EpisodeId> in_flight;
  for (const auto& [id, source] : restarts_) in_flight.push_back(id);
  for (const EpisodeId& id : in_flight) restarts_.at(id).request();
}

void TimedPlayer::change_in_flight(int by) {
  episode_seconds();
  in_flight_ += by;
}

double TimedPlayer::episode_seconds() {
  const TimePoint now = executor_.now();
  episode_seconds_ += to_seconds(now - updated_) * in_flight_;
  updated_ = now;
  return episode_seconds_;
}

}  // namespace stoker
