#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace stoker {

// How the run was set, for the advice.
struct TraceRunSettings {
  int32_t groups_per_batch = 1;
  int32_t group_size = 1;
  int32_t max_concurrent_episodes = 1;
  int32_t max_ahead = 0;      // the depth; of an adaptive run the one in effect at the end
  int32_t adaptive_most = 0;  // what it may be at most, where the run finds it itself; 0: it is fixed
  bool shared_cores = true;   // engine and learner compute on the same cores
};

// Durations of the spans of one name, seconds.
struct SpanTimes {
  int64_t count = 0;
  double total = 0, mean = 0, p95 = 0, longest = 0;
};

struct TailEpisode {
  std::string name;
  double seconds = 0;
  std::string outcome;
  std::map<std::string, double> parts;  // seconds by span name
};

// What the run is short of, and what to do about it.
struct TraceAdvice {
  std::string short_of;  // "episodes in flight", "slots", "compute", "engine", "learner", "steps", "something
                         // to learn"
  std::string knob;      // a key of the run file; empty: none
  int64_t setting = 0;   // what to set it to; 0: there is no one number
  double gain = 0;       // predicted: 0.25 is a quarter more steps in the same time
  std::string sentence;  // one paragraph
};

// Where the time of a training run went. Seconds and shares are of the window from the learner's first wait
// to the end of its last work; of a resumed run, of each start's window by itself, and no time between them.
// What a start left open is in no duration; `outcomes` and `tail` tell of its episodes as "running".
struct TraceSummary {
  double window = 0;
  int64_t steps = 0;
  int64_t versions = 0;
  std::map<std::string, int64_t> outcomes;         // of training episodes
  double episode_seconds = 0;                      // of training episodes that ended, in all
  double evaluation_seconds = 0;                   // of evaluation episodes that ended, in all
  std::map<std::string, SpanTimes> episode_spans;  // construct, ..., close; "episode"; "other": between them
  std::map<std::string, SpanTimes> group_spans;    // group, wait
  std::map<std::string, SpanTimes> learner_spans;  // await, train, publish; "other": between them
  double engine_busy = 0;                          // share, at most 1
  double learner_busy = 0;                         // share in train and publish, by the wall clock
  // Share of shared cores that is the learner's: learner_busy less what the engine computed meanwhile. At
  // most 1 - engine_busy. What a training step does off the cores counts as computing.
  double learner_compute = 0;
  double running_mean = 0;        // training episodes in flight
  double group_ready_mean = 0;    // seconds from a trained group's dispatch until it is complete
  std::vector<TailEpisode> tail;  // the longest first
  TraceAdvice advice;
};

// Reads the trace of a run. Throws Error(kInput) as read_trace does.
TraceSummary summarize_trace(std::span<const std::filesystem::path> files, const TraceRunSettings& settings);

// The advice for a summary whose figures are there. Little's law: episodes in flight = rate * their time; a
// rate is bounded by compute (train, publish and the engine's busy time of a step, one after the other on
// shared cores), by the slots, and by the batches that dispatch may run ahead. A run of which more than
// half the steps made no update is short of something to learn instead, whatever its speed.
TraceAdvice advise(const TraceSummary& summary, const TraceRunSettings& settings);

// The tables and the paragraph, for people.
std::string to_text(const TraceSummary& summary);

}  // namespace stoker
