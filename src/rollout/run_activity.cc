#include "rollout/run_activity.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

namespace stoker {
namespace {

const char* in_words(TraceSpan span) {
  switch (span) {
    case TraceSpan::kConstruct:
      return "while its environment is made";
    case TraceSpan::kReset:
      return "in its environment's reset";
    case TraceSpan::kQueue:
      return "waiting for a place in the engine's batch";
    case TraceSpan::kPrefill:
    case TraceSpan::kDecode:
      return "in the engine";
    case TraceSpan::kTool:
      return "in its tool calls";
    case TraceSpan::kStep:
      return "in its environment's step";
    case TraceSpan::kReward:
      return "in its reward";
    case TraceSpan::kClose:
      return "in its environment's close";
    default:
      return "at its start";
  }
}

// Mean lag of the sampled tokens; empty: there are none.
std::optional<double> mean_lag(const RolloutBatch& batch) {
  int64_t tokens = 0;
  double sum = 0;
  for (const Group& group : batch.groups) {
    for (const EpisodeRecord& episode : group.episodes) {
      for (const VersionRun& run : episode.trajectory.version_runs()) {
        if (run.version < 0) continue;
        tokens += run.end - run.begin;
        sum += static_cast<double>(batch.step - run.version) * (run.end - run.begin);
      }
    }
  }
  if (tokens == 0) return std::nullopt;
  return sum / static_cast<double>(tokens);
}

}  // namespace

std::string ActiveEpisode::describe(int64_t now) const {
  return fmt::format("{} {}, turn {}, {} for {:.0f} s", evaluation ? "evaluation episode" : "episode",
                     id.to_string(), turn, in_words(awaits), static_cast<double>(now - since) * 1e-9);
}

RunActivity::RunActivity(Tracer* tracer) : tracer_(tracer) {
  if (tracer_ == nullptr) return;
  learner_ = tracer_->open_track("learner");
  versions_ = tracer_->open_track("weights served");
}

RunActivity::~RunActivity() {
  if (tracer_ == nullptr) return;
  learner_idle(last_time_);
  if (serving_) tracer_->end(versions_, last_time_);
  while (!groups_.empty()) end_group(groups_.begin()->first, "unfinished", last_time_);
}

void RunActivity::started(int64_t version, int64_t time) { published(version, time); }

void RunActivity::group_started(uint64_t ordinal, int64_t time) {
  if (tracer_ == nullptr) return;
  GroupTrack& group = groups_[ordinal];
  if (group.track) return;
  group.track = tracer_->open_track(fmt::format("group {}", ordinal));
  tracer_->begin(group.track, TraceSpan::kGroup, time);
}

void RunActivity::end_group(uint64_t ordinal, std::string_view outcome, int64_t time) {
  const auto found = groups_.find(ordinal);
  if (found == groups_.end()) return;
  const TraceNote note{.name = "outcome", .text = outcome};
  tracer_->end(found->second.track, time, {.notes = {&note, 1}});
  tracer_->close_track(found->second.track);
  groups_.erase(found);
}

void RunActivity::group_dropped(uint64_t ordinal, std::string_view reason, int64_t time) {
  last_time_ = time;
  if (tracer_ != nullptr) end_group(ordinal, reason, time);
}

void RunActivity::learner_idle(int64_t time) {
  last_time_ = time;
  if (tracer_ != nullptr && std::exchange(learner_busy_, false)) tracer_->end(learner_, time);
}

void RunActivity::learner_waits(int64_t time) {
  learner_idle(time);
  if (tracer_ == nullptr) return;
  tracer_->begin(learner_, TraceSpan::kNextBatch, time);
  learner_busy_ = true;
}

uint64_t RunActivity::version_flow(int64_t version) const {
  return (tracer_->flow_of(learner_) << 24) ^ static_cast<uint64_t>(version) ^ (uint64_t{1} << 63);
}

void RunActivity::batch_taken(const RolloutBatch& batch, int64_t time) {
  learner_idle(time);
  if (tracer_ == nullptr) return;
  std::vector<uint64_t> flows;
  for (const Group& trained : batch.groups) {
    const auto found = groups_.find(trained.task_ordinal);
    if (found == groups_.end()) continue;
    GroupTrack& group = found->second;
    flows.push_back(tracer_->flow_of(group.track));
    group.episodes.push_back(flows.back());
    tracer_->begin(group.track, TraceSpan::kWait, std::min(group.last_end, time), {.flows = group.episodes});
    tracer_->end(group.track, time);
    end_group(trained.task_ordinal, "trained", time);
  }
  flows.push_back(version_flow(batch.step + 1));
  const std::array notes = {TraceNote{.name = "version", .number = static_cast<double>(batch.step)},
                            TraceNote{.name = "groups", .number = static_cast<double>(batch.groups.size())}};
  tracer_->begin(learner_, TraceSpan::kTrain, time, {.flows = flows, .notes = notes});
  learner_busy_ = true;
  if (const std::optional<double> lag = mean_lag(batch)) tracer_->count(TraceCounter::kLag, time, *lag);
}

void RunActivity::learner_publishes(int64_t version, int64_t time) {
  learner_idle(time);
  if (tracer_ == nullptr) return;
  const TraceNote note{.name = "version", .number = static_cast<double>(version)};
  const uint64_t flow = version_flow(version);
  tracer_->begin(learner_, TraceSpan::kPublish, time, {.flows = {&flow, 1}, .notes = {&note, 1}});
  learner_busy_ = true;
}

void RunActivity::published(int64_t version, int64_t time) {
  learner_idle(time);
  if (tracer_ == nullptr) return;
  if (std::exchange(serving_, true)) tracer_->end(versions_, time);
  const TraceNote note{.name = "version", .number = static_cast<double>(version)};
  const uint64_t flow = version_flow(version);
  tracer_->begin(versions_, TraceSpan::kVersion, time, {.flows = {&flow, 1}, .notes = {&note, 1}});
}

void RunActivity::sample(const Controller& controller, const Engine& engine, int64_t time) {
  last_time_ = time;
  if (tracer_ == nullptr || time - last_sample_ < kSampleInterval) return;
  const EngineStatistics statistics = engine.statistics();
  const auto count = [&](TraceCounter counter, auto value) {
    tracer_->count(counter, time, static_cast<double>(value));
  };
  count(TraceCounter::kRunningEpisodes, controller.running_episodes());
  count(TraceCounter::kReadyGroups, controller.ready_groups());
  count(TraceCounter::kOpenGroups, controller.open_groups());
  count(TraceCounter::kWaitingRequests, statistics.waiting_requests);
  count(TraceCounter::kRunningRequests, statistics.running_requests);
  count(TraceCounter::kEngineBusySeconds, statistics.busy_seconds);
  if (last_sample_ >= 0) {
    const double seconds = static_cast<double>(time - last_sample_) * 1e-9;
    count(TraceCounter::kTokensPerSecond,
          static_cast<double>(statistics.sampled_tokens - last_tokens_) / seconds);
  }
  if (statistics.cache_blocks_total > 0) {
    count(TraceCounter::kCacheUse, static_cast<double>(statistics.cache_blocks_used) /
                                       static_cast<double>(statistics.cache_blocks_total));
  }
  last_sample_ = time;
  last_tokens_ = statistics.sampled_tokens;
}

std::vector<ActiveEpisode> RunActivity::stuck_since(double seconds, int64_t now) {
  std::vector<ActiveEpisode> stuck;
  episodes_.for_each([&](EpisodeActivity& episode) {
    if (std::exchange(episode.progressed_, false)) episode.since_ = now;
    const ActiveEpisode state = episode.state();
    if (static_cast<double>(now - state.since) * 1e-9 >= seconds) stuck.push_back(state);
  });
  std::sort(stuck.begin(), stuck.end(), [](const ActiveEpisode& a, const ActiveEpisode& b) {
    return std::pair(a.since, a.id) < std::pair(b.since, b.id);
  });
  return stuck;
}

TraceTrack RunActivity::episode_track(const EpisodeId& id, bool evaluation) {
  if (tracer_ == nullptr) return {};
  if (!evaluation) {
    const auto group = groups_.find(id.task_ordinal);
    return tracer_->open_track("episode " + id.to_string(),
                               group != groups_.end() ? group->second.track : TraceTrack{});
  }
  if (!evaluation_) evaluation_ = tracer_->open_track("evaluation");
  return tracer_->open_track("evaluation " + id.to_string(), evaluation_);
}

void RunActivity::episode_ended(const EpisodeActivity& episode, bool scored, int64_t time) {
  last_time_ = time;
  if (episode.evaluation_) return;
  const auto group = groups_.find(episode.id_.task_ordinal);
  if (group == groups_.end()) return;
  group->second.last_end = std::max(group->second.last_end, time);
  if (scored) group->second.episodes.push_back(tracer_->flow_of(episode.track_));
}

EpisodeActivity::EpisodeActivity(Executor& executor, RunActivity* run, const EpisodeId& id, bool evaluation)
    : executor_(executor), run_(run), id_(id), evaluation_(evaluation) {
  if (run_ == nullptr) return;
  run_->episodes_.push_back(*this);
  since_ = executor_.now().time_since_epoch().count();
  track_ = run_->episode_track(id, evaluation);
  if (track_) tracer()->begin(track_, TraceSpan::kEpisode, since_);
}

EpisodeActivity::~EpisodeActivity() {
  if (ended_ || run_ == nullptr) return;
  const TraceNote note{.name = "outcome", .text = "cancelled"};
  end(executor_.now().time_since_epoch().count(), {.notes = {&note, 1}}, false);
}

void EpisodeActivity::expect(TraceSpan what, int32_t turn, int64_t time) {
  leave(time);
  expected_ = true;
  progressed_ = false;
  doing_ = what;
  turn_ = turn;
  since_ = time;
}

void EpisodeActivity::enter(TraceSpan what, int32_t turn, int64_t time) {
  expect(what, turn, time);
  expected_ = false;
  if (!track_) return;
  in_span_ = true;
  if (what == TraceSpan::kClose) {
    const uint64_t flow = tracer()->flow_of(track_);
    tracer()->begin(track_, what, time, {.flows = {&flow, 1}});
  } else {
    tracer()->begin(track_, what, time);
  }
}

void EpisodeActivity::leave(int64_t time) {
  constexpr int64_t kMillisecond = 1'000'000;
  if (std::exchange(expected_, false) && track_ && time - since_ >= kMillisecond) {
    tracer()->begin(track_, doing_, since_);
    in_span_ = true;
  }
  if (std::exchange(in_span_, false)) tracer()->end(track_, time);
}

void EpisodeActivity::finish(const EpisodeRecord& record) {
  const std::string outcome = record.failure ? record.failure->name() : "done";
  const auto number = [](auto value) { return static_cast<double>(value); };
  std::array<TraceNote, 4> notes = {
      TraceNote{.name = "outcome", .text = outcome},
      TraceNote{.name = "turns", .number = number(record.trajectory.turn_count())},
      TraceNote{.name = "sampled tokens", .number = number(record.trajectory.sampled_count())},
      TraceNote{.name = "reward", .number = record.reward.value_or(0)}};
  end(record.end_time, {.notes = std::span(notes).first(record.reward ? 4 : 3)}, record.reward.has_value());
}

void EpisodeActivity::end(int64_t time, const TraceDetails& details, bool scored) {
  ended_ = true;
  unlink();
  if (!track_) return;
  leave(time);
  tracer()->end(track_, time, details);
  run_->episode_ended(*this, scored, time);
  tracer()->close_track(track_);
}

}  // namespace stoker
