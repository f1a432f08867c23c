#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

// Traces: the light header by which any area records where time goes. The writer is in observe
// (perfetto_writer.h); times are nanoseconds of the Executor clock and come from the caller.
//
//   TraceTrack track = tracer.open_track("episode 17.3", group_track);
//   tracer.begin(track, TraceSpan::kTool, now);
//   tracer.end(track, later);
//   tracer.close_track(track);

// What takes time, as traces, summaries and reports of stuck episodes name it.
enum class TraceSpan : uint8_t {
  kEpisode,    // one attempt, from its start to its record
  kConstruct,  // of an episode: its environment is made
  kReset,
  kQueue,    // its request waits for a place in the engine's batch
  kPrefill,  // up to the first sampled token
  kDecode,   // up to the last one
  kTool,     // the tool calls of one turn
  kStep,     // the environment answers
  kReward,
  kClose,
  kGroup,      // from the dispatch of a group until it is consumed or dropped
  kWait,       // of a group: complete, not yet consumed
  kNextBatch,  // the learner waits for a batch
  kTrain,
  kPublish,  // weights go to the engine
  kVersion,  // the engine serves one version of the weights
};
constexpr std::array kTraceSpanNames = {"episode", "construct", "reset",   "queue",  "prefill", "decode",
                                        "tool",    "step",      "reward",  "close",  "group",   "wait",
                                        "await",   "train",     "publish", "version"};
constexpr const char* to_string(TraceSpan span) { return kTraceSpanNames[static_cast<size_t>(span)]; }

// Levels and totals over time.
enum class TraceCounter : uint8_t {
  kRunningEpisodes,
  kReadyGroups,        // complete, not consumed: the train queue
  kOpenGroups,         // dispatched, not consumed
  kWaitingRequests,    // in the engine, without a place in its batch
  kRunningRequests,    // in the engine's batch
  kTokensPerSecond,    // sampled, since the value before
  kCacheUse,           // share of the engine's cache blocks
  kEngineBusySeconds,  // computing, since the run began
  kLag,                // versions, mean of the sampled tokens of a batch
};
constexpr std::array kTraceCounterNames = {"running episodes", "ready groups",        "open groups",
                                           "waiting requests", "running requests",    "tokens per second",
                                           "cache use",        "engine busy seconds", "lag"};
constexpr const char* to_string(TraceCounter counter) {
  return kTraceCounterNames[static_cast<size_t>(counter)];
}

// A line of the trace, whose spans nest. 0: none. Numbers are given again after close_track.
struct TraceTrack {
  uint32_t number = 0;
  explicit operator bool() const { return number != 0; }
  bool operator==(const TraceTrack&) const = default;
};

// Said of a span, at its begin or its end: a number, or a text where that is not empty.
struct TraceNote {
  const char* name = "";
  double number = 0;
  std::string_view text = {};
};

// What hangs on the begin of a span: arrows from and to the spans that carry the same flow, and notes.
struct TraceDetails {
  std::span<const uint64_t> flows = {};
  std::span<const TraceNote> notes = {};
};

// Takes what is recorded. Cheap enough to be always on: a fraction of a microsecond a turn. Loop thread only.
class Tracer {
 public:
  virtual ~Tracer() = default;

  // `parent`: the track under which this one is shown; none: at the top.
  virtual TraceTrack open_track(std::string name, TraceTrack parent = {}) = 0;
  virtual void close_track(TraceTrack track) = 0;
  // Names the track for flows; unique in the run, past close_track too.
  virtual uint64_t flow_of(TraceTrack track) const = 0;

  // Spans of a track nest: end closes the one that began last. At most kTraceDepth are open at once.
  virtual void begin(TraceTrack track, TraceSpan span, int64_t time, const TraceDetails& details = {}) = 0;
  virtual void end(TraceTrack track, int64_t time, const TraceDetails& details = {}) = 0;
  virtual void count(TraceCounter counter, int64_t time, double value) = 0;
};
constexpr size_t kTraceDepth = 3;

}  // namespace stoker
