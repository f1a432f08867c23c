#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "environment/environment.h"

namespace stoker {

// The messages of docs/protocol.md as values. Pure functions; whatever comes from outside gives a value or a
// Failure, never an exception.

constexpr int kProtocolVersion = 1;
constexpr uint64_t kProtocolSeedMask = (uint64_t{1} << 53) - 1;

// One line, without its end. `params` is an object or null.
std::string request_line(int64_t id, std::string_view method, Json params);
std::string cancel_line(int64_t id);
std::string result_line(int64_t id, Json result);

// What an answer says instead of a result.
struct ProtocolError {
  std::string error_class;  // a failure class, "protocol" or "cancelled"
  std::string reason;
  std::string message;
  std::string traceback;  // for the log; may be empty

  // The failure that it means; of class protocol or anything unknown: infrastructure.protocol.
  Failure failure() const;
};

struct ProtocolAnswer {
  std::optional<int64_t> id;  // empty: of a line that had none that was usable
  std::variant<Json, ProtocolError> content;
};
struct ProtocolLog {
  LogLevel level = LogLevel::kInfo;
  std::string message;
  std::string episode;
};
// A line that is no message, and what is wrong with it.
struct StrayLine {
  std::string problem;
};
using ProtocolMessage = std::variant<ProtocolAnswer, ProtocolLog, StrayLine>;

// A line from a process, empty ones excluded.
ProtocolMessage decode_message(std::string_view line);

struct OfferedEnvironment {
  std::string name;
  bool snapshot = false;
  bool scored = false;
};
// What a process says in answer to hello.
struct Greeting {
  std::string server;  // "stoker-env 0.1.0"
  std::vector<OfferedEnvironment> environments;
  std::vector<std::string> tools;
  std::vector<std::string> rewards;
  int64_t line_bytes = int64_t{16} << 20;
  int64_t episodes = 0;  // 0: it names no limit

  bool operator==(const Greeting&) const = default;
};
inline bool operator==(const OfferedEnvironment& a, const OfferedEnvironment& b) {
  return a.name == b.name && a.snapshot == b.snapshot && a.scored == b.scored;
}

Json hello_params(int64_t line_bytes);

// Each reads the result of one request; what does not fit is the failure infrastructure.protocol.
Result<Greeting> decode_greeting(const Json& result);
Result<std::vector<ToolSchema>> decode_tools(const Json& result);

struct ResetAnswer {
  Observation observation;
  std::optional<std::vector<ToolSchema>> tools;  // in place of the environment's
};
Result<ResetAnswer> decode_reset(const Json& result);
// `truncated` is the failure limit.environment.
Result<Observation> decode_step(const Json& result);
Result<ToolResult> decode_call(const Json& result);

struct ScoreAnswer {
  std::optional<double> reward;  // empty: not scored
  std::optional<bool> success;
};
Result<ScoreAnswer> decode_score(const Json& result);

// The state of an episode: any JSON value.
Result<Json> decode_snapshot(const Json& result);
// The tools of a restored episode in place of the environment's; empty: those.
Result<std::optional<std::vector<ToolSchema>>> decode_restore(const Json& result);

struct PingAnswer {
  int64_t episodes = 0;
  int64_t stuck = 0;
};
PingAnswer decode_ping(const Json& result);

}  // namespace stoker
