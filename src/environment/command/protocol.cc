#include "environment/command/protocol.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "text/message.h"

namespace stoker {
namespace {

constexpr const char* kClientVersion = STOKER_PROJECT_VERSION;
constexpr size_t kMaxMessageBytes = 4096;
constexpr size_t kMaxTracebackBytes = 16384;
constexpr size_t kMaxLogBytes = 16384;

Failure protocol_failure(std::string message) {
  return {FailureClass::kInfrastructure, "protocol", std::move(message)};
}

// A member that counts: null is absent.
const Json* member(const Json& object, std::string_view name) {
  const Json* found = object.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text_member(const Json& object, std::string_view name, size_t max_bytes) {
  const Json* found = member(object, name);
  if (found == nullptr || !found->is_string()) return "";
  return found->as_string().substr(0, max_bytes);
}

bool flag_member(const Json& object, std::string_view name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

std::optional<int64_t> count_member(const Json& object, std::string_view name) {
  const Json* found = member(object, name);
  if (found == nullptr || !found->is_integer()) return std::nullopt;
  const double value = found->as_double();
  if (value < 0 || value > 9007199254740992.0) return std::nullopt;
  return found->as_int();
}

bool is_reason(std::string_view reason) {
  if (reason.empty() || reason.size() > 64 || reason[0] < 'a' || reason[0] > 'z') return false;
  return std::all_of(reason.begin(), reason.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

ProtocolError decode_error(const Json& error) {
  return {.error_class = text_member(error, "class", 64),
          .reason = text_member(error, "reason", 64),
          .message = text_member(error, "message", kMaxMessageBytes),
          .traceback = text_member(error, "traceback", kMaxTracebackBytes)};
}

ProtocolMessage decode_notification(const Json& json) {
  const Json* method = member(json, "method");
  if (method == nullptr || !method->is_string() || method->as_string() != "log") {
    return StrayLine{"a JSON object that is no message"};
  }
  const Json* params = member(json, "params");
  if (params == nullptr || !params->is_object()) return StrayLine{"a log line without params"};
  const std::string level = text_member(*params, "level", 16);
  return ProtocolLog{.level = level == "debug"     ? LogLevel::kDebug
                              : level == "warning" ? LogLevel::kWarning
                              : level == "error"   ? LogLevel::kError
                                                   : LogLevel::kInfo,
                     .message = text_member(*params, "message", kMaxLogBytes),
                     .episode = text_member(*params, "episode", 128)};
}

// What a reader of JSON throws becomes a Failure that names the answer.
template <typename T, typename Read>
Result<T> read_answer(const char* method, const Json& result, const Read& read) {
  try {
    return read(result);
  } catch (const Error& error) {
    return protocol_failure(fmt::format("The answer to {} cannot be understood: {}", method, error.what()));
  }
}

std::vector<Message> messages_member(const Json& result, const char* what) {
  const Json* messages = member(result, "messages");
  return messages == nullptr ? std::vector<Message>{} : messages_from_json(*messages, what);
}

std::vector<ToolSchema> tools_member(const Json& tools) {
  constexpr size_t kMaxTools = 128;
  std::vector<ToolSchema> schemas;
  for (const Json& tool : tools.as_array()) {
    schemas.push_back(tool_schema_from_json(tool, fmt::format("tool {}", schemas.size())));
    const std::string& name = schemas.back().name;
    if (std::count_if(schemas.begin(), schemas.end(),
                      [&](const ToolSchema& known) { return known.name == name; }) > 1) {
      throw input_error(fmt::format("there are two tools named '{}'", name));
    }
  }
  if (schemas.size() > kMaxTools) throw input_error(fmt::format("there are more than {} tools", kMaxTools));
  return schemas;
}

std::vector<std::string> names_member(const Json& result, std::string_view name) {
  std::vector<std::string> names;
  const Json* list = member(result, name);
  if (list == nullptr) return names;
  for (const Json& element : list->as_array()) {
    names.push_back(element.is_object() ? element.at("name").as_string() : element.as_string());
  }
  return names;
}

}  // namespace

std::string request_line(int64_t id, std::string_view method, Json params) {
  Json request = Json::object();
  request.set("id", static_cast<long long>(id));
  request.set("method", method);
  if (!params.is_null()) request.set("params", std::move(params));
  return request.dump();
}

std::string cancel_line(int64_t id) {
  return fmt::format(R"({{"method":"cancel","params":{{"id":{}}}}})", id);
}

std::string result_line(int64_t id, Json result) {
  Json answer = Json::object();
  answer.set("id", static_cast<long long>(id));
  answer.set("result", std::move(result));
  return answer.dump();
}

Failure ProtocolError::failure() const {
  const std::optional<FailureClass> known = failure_class_from_string(error_class);
  if (!known) {
    return protocol_failure(fmt::format("The process answered with the error {}.{}: {}", error_class,
                                        is_reason(reason) ? reason : "?", message));
  }
  return {*known, is_reason(reason) ? reason : "unnamed", message};
}

ProtocolMessage decode_message(std::string_view line) {
  Result<Json> json = Json::try_parse(line);
  if (!json) return StrayLine{json.failure().message};
  if (!json->is_object()) return StrayLine{fmt::format("{}, no JSON object", json->type_name())};
  const Json* id = json->find("id");
  if (id == nullptr) return decode_notification(*json);
  ProtocolAnswer answer;
  if (!id->is_null()) {
    answer.id = count_member(*json, "id");
    if (!answer.id) return StrayLine{"an answer whose id is no integer from 0 to 2^53"};
  }
  const Json* error = member(*json, "error");
  if (error != nullptr) {
    if (!error->is_object()) return StrayLine{"an answer whose error is no object"};
    answer.content = decode_error(*error);
    return answer;
  }
  const Json* result = member(*json, "result");
  if (result == nullptr || !result->is_object()) return StrayLine{"an answer with neither result nor error"};
  answer.content = *result;
  return answer;
}

Json hello_params(int64_t line_bytes) {
  return Json::object({{"protocol", Json::object({{"min", kProtocolVersion}, {"max", kProtocolVersion}})},
                       {"client", Json::object({{"name", "stoker"}, {"version", kClientVersion}})},
                       {"limits", Json::object({{"line_bytes", static_cast<long long>(line_bytes)}})}});
}

Result<Greeting> decode_greeting(const Json& result) {
  return read_answer<Greeting>("hello", result, [](const Json& json) {
    const int64_t version = json.at("protocol").as_int();
    if (version != kProtocolVersion) {
      throw input_error(fmt::format("it speaks version {}, Stoker version {}", version, kProtocolVersion));
    }
    Greeting greeting;
    if (const Json* server = member(json, "server")) {
      greeting.server = text_member(*server, "name", 128) + " " + text_member(*server, "version", 64);
    }
    if (const Json* environments = member(json, "environments")) {
      for (const Json& offered : environments->as_array()) {
        greeting.environments.push_back({.name = offered.at("name").as_string(),
                                         .snapshot = flag_member(offered, "snapshot"),
                                         .scored = flag_member(offered, "scored")});
      }
    }
    greeting.tools = names_member(json, "tools");
    greeting.rewards = names_member(json, "rewards");
    if (const Json* limits = member(json, "limits")) {
      greeting.line_bytes = count_member(*limits, "line_bytes").value_or(greeting.line_bytes);
      greeting.episodes = count_member(*limits, "episodes").value_or(0);
    }
    if (greeting.line_bytes < 65536) throw input_error("limits.line_bytes is below 65,536");
    return greeting;
  });
}

Result<std::vector<ToolSchema>> decode_tools(const Json& result) {
  return read_answer<std::vector<ToolSchema>>(
      "tools", result, [](const Json& json) { return tools_member(json.at("tools")); });
}

Result<ResetAnswer> decode_reset(const Json& result) {
  return read_answer<ResetAnswer>("reset", result, [](const Json& json) {
    ResetAnswer answer;
    answer.observation = {.messages = messages_member(json, "messages"), .done = flag_member(json, "done")};
    if (answer.observation.messages.empty() && !answer.observation.done) {
      throw input_error("there are no messages, and it is not done");
    }
    if (const Json* tools = member(json, "tools")) answer.tools = tools_member(*tools);
    return answer;
  });
}

Result<Observation> decode_step(const Json& result) {
  return read_answer<Observation>("step", result, [](const Json& json) -> Result<Observation> {
    Observation observation{.messages = messages_member(json, "messages"), .done = flag_member(json, "done")};
    if (observation.done && flag_member(json, "truncated")) {
      return Failure{FailureClass::kLimit, "environment", "A limit of the environment ended the episode."};
    }
    if (observation.messages.empty() && !observation.done) {
      throw input_error("there are no messages, and it is not done");
    }
    return observation;
  });
}

Result<ToolResult> decode_call(const Json& result) {
  return read_answer<ToolResult>("call", result, [](const Json& json) {
    return ToolResult{.content = json.at("content").as_string(), .is_error = flag_member(json, "is_error")};
  });
}

Result<ScoreAnswer> decode_score(const Json& result) {
  return read_answer<ScoreAnswer>("score", result, [](const Json& json) {
    ScoreAnswer answer;
    const Json& reward = json.at("reward");
    if (!reward.is_null()) answer.reward = reward.as_double();
    if (const Json* success = member(json, "success")) answer.success = success->as_bool();
    return answer;
  });
}

Result<Json> decode_snapshot(const Json& result) {
  return read_answer<Json>("snapshot", result, [](const Json& json) { return json.at("state"); });
}

Result<std::optional<std::vector<ToolSchema>>> decode_restore(const Json& result) {
  using Tools = std::optional<std::vector<ToolSchema>>;
  return read_answer<Tools>("restore", result, [](const Json& json) {
    const Json* tools = member(json, "tools");
    return tools == nullptr ? Tools() : Tools(tools_member(*tools));
  });
}

PingAnswer decode_ping(const Json& result) {
  return {.episodes = count_member(result, "episodes").value_or(0),
          .stuck = count_member(result, "stuck").value_or(0)};
}

}  // namespace stoker
