#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace stoker {

// Where a span of tokens comes from. The loss mask is derived from it: only `kSampled` tokens are trained.
enum class SpanKind {
  kPrompt,       // the first rendered messages, generation prompt included
  kSampled,      // the policy's own tokens, the end token included
  kObservation,  // tool results and what the environment says
  kInjected,     // template glue between turns
};
const char* to_string(SpanKind kind);  // "prompt", "sampled", "observation", "injected"

// Why a sampled span ended.
enum class StopReason { kNone, kStopToken, kStopString, kLength, kAborted };
const char* to_string(StopReason reason);  // "none", "stop_token", "stop_string", "length", "aborted"

// A run of consecutive tokens of one origin. Times are nanoseconds of the run's Executor clock.
struct Span {
  SpanKind kind = SpanKind::kPrompt;
  int32_t turn = 0;
  int32_t begin = 0;  // index of the first token
  int32_t end = 0;    // past the last token
  int64_t start_time = 0;
  int64_t end_time = 0;
  StopReason stop_reason = StopReason::kNone;  // of a sampled span

  bool operator==(const Span&) const = default;
};

// Consecutive tokens that the same weights sampled, or that were not sampled (version -1). A trajectory's
// runs follow each other without a gap, and no two neighbours are of one version.
struct VersionRun {
  int32_t begin = 0;
  int32_t end = 0;  // past the last token
  int64_t version = -1;

  bool operator==(const VersionRun&) const = default;
};

// The tokens of one episode, append only, as structure of arrays: the truth of what was sampled; text is a
// view. Misuse throws Error(kInternal): a span inside an open one, a turn that goes back, a prompt behind
// sampled tokens, a negative id or version, a log-probability that is no finite number.
class Trajectory {
 public:
  // Appends tokens that were not sampled: no log-probability, no version. No tokens: adds no span.
  void append(SpanKind kind, int32_t turn, std::span<const int32_t> tokens, int64_t start_time = 0,
              int64_t end_time = 0);

  // Opens a sampled span, to which the engine's tokens are added as they come; close_sampled ends it.
  void begin_sampled(int32_t turn, int64_t start_time = 0);
  // `version`: the weights that sampled the token. `mixed`: parts of its context were computed by other
  // weights.
  void append_sampled(int32_t token, float log_probability, int64_t version, bool mixed = false);
  void close_sampled(StopReason reason, int64_t end_time = 0);

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }
  const std::vector<Span>& spans() const { return spans_; }
  int32_t turn_count() const { return turn_count_; }  // turns that have a sampled span
  int32_t sampled_count() const { return sampled_count_; }

  // Of one token; has_log_probability is false for tokens that were not sampled (their value is no number).
  bool has_log_probability(int32_t index) const { return !std::isnan(log_probability_[index]); }
  float log_probability(int32_t index) const { return log_probability_[index]; }
  int64_t version(int32_t index) const;  // -1 where not sampled; takes the logarithm of the runs
  bool mixed(int32_t index) const { return static_cast<size_t>(index) < mixed_.size() && mixed_[index] != 0; }
  bool trained(int32_t index) const { return has_log_probability(index); }  // the loss mask
  // 1 where trained: sampled, and by version `oldest_trained_version` or later. [size()]
  std::vector<uint8_t> loss_mask(int64_t oldest_trained_version = 0) const;
  std::span<const float> log_probabilities() const { return log_probability_; }
  std::span<const VersionRun> version_runs() const { return versions_; }

  // Oldest and newest version of a sampled token; empty when nothing was sampled.
  std::optional<int64_t> oldest_version() const;
  std::optional<int64_t> newest_version() const;

  // A trajectory cut to its first `turns` turns, each with all spans that carry its number: what an
  // interrupted episode goes on from. 0 keeps what precedes the first sampled token. At most turn_count(),
  // the last of them closed.
  Trajectory cut_after_turn(int32_t turns) const;

  // Bit for bit: log-probabilities are written so that they read back to the same float.
  Json to_json() const;
  static Trajectory from_json(const Json& json);  // throws Error(kInput)

  bool operator==(const Trajectory& other) const;

 private:
  void check_new_span(SpanKind kind, int32_t turn) const;
  void extend_version(int64_t version);
  void append_span_json(const Json& json, const std::string& place, bool open);

  std::vector<int32_t> tokens_;
  std::vector<float> log_probability_;  // NaN where not sampled
  std::vector<VersionRun> versions_;
  std::vector<uint8_t> mixed_;  // up to the last mixed token: most episodes have none
  std::vector<Span> spans_;
  int32_t sampled_count_ = 0;
  int32_t turn_count_ = 0;
  int32_t last_sampled_turn_ = 0;
  bool sampling_ = false;
};

}  // namespace stoker
