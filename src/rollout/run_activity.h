#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/executor.h"
#include "async/intrusive_list.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "rollout/controller.h"
#include "rollout/group.h"

namespace stoker {

class EpisodeActivity;

// An episode that has not ended, for reports of what is stuck.
struct ActiveEpisode {
  EpisodeId id;
  bool evaluation = false;
  TraceSpan awaits = TraceSpan::kEpisode;  // what it does
  int32_t turn = 0;                        // counted from 0
  int64_t since = 0;                       // when that began or last progressed, ns of the Executor clock

  // "episode 17.3, turn 2, in its tool calls for 431 s".
  std::string describe(int64_t now) const;
};

// What everything in a run does at this moment, told by the orchestrator and by who plays the episodes, and
// the run's trace: one track an episode under one a group, one of the learner, one of the versions that the
// engine serves; flows lead from episodes to their group, to the step that it is trained in, and to the
// version that comes of it. Times are ns of the Executor clock. Loop thread only.
class RunActivity {
 public:
  // `tracer` may be null: then nothing is recorded. It must outlive the object.
  explicit RunActivity(Tracer* tracer = nullptr);
  // Ends what is open, at the last time it was told of.
  ~RunActivity();
  RunActivity(const RunActivity&) = delete;
  RunActivity& operator=(const RunActivity&) = delete;

  // Of the orchestrator.
  void started(int64_t version, int64_t time);
  void group_started(uint64_t ordinal, int64_t time);
  void group_dropped(uint64_t ordinal, std::string_view reason, int64_t time);
  void learner_waits(int64_t time);
  void batch_taken(const RolloutBatch& batch, int64_t time);
  void learner_publishes(int64_t version, int64_t time);
  void published(int64_t version, int64_t time);
  void learner_idle(int64_t time);  // what the learner did ends
  // Depths and levels, at most once in kSampleInterval of time.
  void sample(const Controller& controller, const Engine& engine, int64_t time);
  static constexpr int64_t kSampleInterval = 100'000'000;

  // Episodes that do the same without progress since at least `seconds`, those that began first coming first.
  // Progress counts from the look that first sees it. O(episodes).
  std::vector<ActiveEpisode> stuck_since(double seconds, int64_t now);

 private:
  friend class EpisodeActivity;

  struct GroupTrack {
    TraceTrack track;
    std::vector<uint64_t> episodes;  // flows of its scored members
    int64_t last_end = 0;            // of a member
  };

  TraceTrack episode_track(const EpisodeId& id, bool evaluation);
  void episode_ended(const EpisodeActivity& episode, bool scored, int64_t time);
  void end_group(uint64_t ordinal, std::string_view outcome, int64_t time);
  uint64_t version_flow(int64_t version) const;

  Tracer* tracer_;
  IntrusiveList<EpisodeActivity> episodes_;
  std::map<uint64_t, GroupTrack> groups_;
  TraceTrack learner_, versions_, evaluation_;
  bool learner_busy_ = false;
  bool serving_ = false;
  int64_t last_time_ = 0;
  int64_t last_sample_ = -kSampleInterval;
  int64_t last_tokens_ = 0;
};

// What one episode does, told by who plays it. Ends itself as "cancelled" when it is destroyed before
// `finish`. A RunActivity that is null, or without a tracer, costs nearly nothing. Must not outlive it.
class EpisodeActivity : public ListHook<EpisodeActivity> {
 public:
  EpisodeActivity(Executor& executor, RunActivity* run, const EpisodeId& id, bool evaluation);
  ~EpisodeActivity();

  // From `time` on it does `what`; what it did before ends there.
  void enter(TraceSpan what, int32_t turn, int64_t time);
  // The same when it may turn out to be something else, which `enter` then says with the same time: it
  // becomes a span of its own only when it lasts a millisecond.
  void expect(TraceSpan what, int32_t turn, int64_t time);
  void leave(int64_t time);
  // What it entered goes on and has got further: a token came. Without a time, which would cost more than the
  // rest of a token: stuck_since asks for it.
  void progress() { progressed_ = true; }
  void finish(const EpisodeRecord& record);

  ActiveEpisode state() const {
    return {.id = id_, .evaluation = evaluation_, .awaits = doing_, .turn = turn_, .since = since_};
  }

 private:
  friend class RunActivity;
  Tracer* tracer() const { return run_ != nullptr ? run_->tracer_ : nullptr; }
  void end(int64_t time, const TraceDetails& details, bool scored);

  Executor& executor_;
  RunActivity* run_;
  EpisodeId id_;
  bool evaluation_;
  bool progressed_ = false;  // since the last look
  bool in_span_ = false;
  bool expected_ = false;
  bool ended_ = false;
  TraceSpan doing_ = TraceSpan::kEpisode;
  int32_t turn_ = 0;
  int64_t since_ = 0;  // of `doing_`, or of the look that saw its last progress
  TraceTrack track_;
};

}  // namespace stoker
