#include "environment/command/protocol_server.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/message.h"
#include "trajectory/failure_rules.h"

namespace stoker {
namespace {

constexpr int64_t kEpisodes = 100'000;

Failure bad_params(std::string message) {
  // The class has no failure of Stoker's: reply() gives it its name on the wire.
  return {FailureClass::kInfrastructure, "bad_params", std::move(message)};
}

Json error_json(const std::string& error_class, const std::string& reason, const std::string& message) {
  constexpr size_t kMaxBytes = 4096;
  return Json::object(
      {{"class", error_class}, {"reason", reason}, {"message", message.substr(0, kMaxBytes)}});
}

const std::string& text_param(const Json& params, std::string_view name) {
  return params.at(name).as_string();
}

TaskRow task_param(const Json& params) {
  const Json& task = params.at("task");
  return {task.at("id").as_string(), task.at("fields")};
}

// "limit.turns" as a failure; "done" and nothing: none.
std::optional<Failure> outcome_param(const Json& params) {
  const Json* outcome = params.find("outcome");
  if (outcome == nullptr || *outcome == Json("done")) return std::nullopt;
  const std::string& name = outcome->as_string();
  const size_t dot = name.find('.');
  const std::optional<FailureClass> known = failure_class_from_string(name.substr(0, dot));
  if (dot == std::string::npos || !known) throw input_error(fmt::format("there is no outcome \"{}\"", name));
  return Failure{*known, name.substr(dot + 1), ""};
}

Json observation_json(const Observation& observation) {
  return Json::object({{"messages", messages_to_json(observation.messages)}, {"done", observation.done}});
}

}  // namespace

struct ProtocolServer::Episode {
  std::unique_ptr<Environment> environment;
  Semaphore turn{1, "turn of an episode"};
};

ProtocolServer::ProtocolServer(Executor& executor, std::string name, const EnvironmentKind& kind,
                               Pool& blocking, std::function<void(const std::string& line)> write)
    : name_(std::move(name)),
      kind_(kind),
      blocking_(blocking),
      write_(std::move(write)),
      rewards_(kind.rewards()),
      scope_(executor) {}
ProtocolServer::~ProtocolServer() = default;

void ProtocolServer::take(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const Result<Json> json = Json::try_parse(line);
  if (!json) return refuse(std::nullopt, "bad_json", "The line is no JSON: " + json.failure().message);
  Request request;
  try {
    if (json->find("id") == nullptr && json->find("method") != nullptr) {
      if (json->at("method") == Json("cancel")) {
        const auto running = running_.find(json->at("params").at("id").as_int());
        if (running != running_.end()) running->second->request(CancelReason::kRequested);
      }
      return;
    }
    request.id = json->at("id").as_int();
    request.method = json->at("method").as_string();
    const Json* params = json->find("params");
    request.params = params == nullptr || params->is_null() ? Json::object() : *params;
    if (!request.params.is_object()) throw input_error("params is no object");
  } catch (const Error& error) {
    const Json* id = json->find("id");
    return refuse(id != nullptr && id->is_integer() ? std::optional(id->as_int()) : std::nullopt,
                  "bad_request", fmt::format("The request cannot be understood: {}.", error.what()));
  }
  if (!greeted_ && request.method != "hello") {
    return refuse(request.id, "not_greeted", "The first request must be 'hello'.");
  }
  // The episode is looked up now, so that what follows a close does not meet the next of that name.
  request.episode = episode_of(request);
  auto& source = running_[request.id];
  source = std::make_unique<CancellationSource>();
  const CancellationToken token = source->token();
  scope_.spawn(work(std::move(request), token), "request");
}

std::shared_ptr<ProtocolServer::Episode> ProtocolServer::episode_of(const Request& request) {
  const Json* name = request.params.find("episode");
  if (name == nullptr || !name->is_string() || request.method == "score") {
    return nullptr;
  }
  const auto found = episodes_.find(name->as_string());
  if (found != episodes_.end()) {
    std::shared_ptr<Episode> episode = found->second;
    if (request.method == "close") episodes_.erase(found);
    return request.method == "reset" ? nullptr : episode;
  }
  if (request.method != "reset") return nullptr;
  return episodes_[name->as_string()] = std::make_shared<Episode>();
}

Task<> ProtocolServer::work(Request request, CancellationToken cancellation) {
  Result<Json> result = Json();
  try {
    Task<Result<Json>> task = answer(request);
    // close is never cancelled.
    result = request.method == "close" ? co_await shielded(std::move(task))
                                       : co_await with_cancellation(cancellation, std::move(task));
  } catch (const Cancelled&) {
    Json error = Json::object({{"id", static_cast<long long>(request.id)}});
    error.set("error", error_json("cancelled", "cancelled", "The request was cancelled."));
    running_.erase(request.id);
    write_(error.dump());
    co_return;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kResource) throw;
    result = bad_params(error.what());
  } catch (const std::exception& exception) {
    result = Failure{FailureClass::kEnvironment, "exception", exception.what()};
  }
  running_.erase(request.id);
  if (request.method == "reset" && !result.ok()) {
    const auto opened = episodes_.find(text_param(request.params, "episode"));
    if (opened != episodes_.end() && opened->second == request.episode) episodes_.erase(opened);
  }
  reply(request.id, result);
}

Task<Result<Json>> ProtocolServer::answer(const Request& request) {
  const std::string& method = request.method;
  if (method == "hello") co_return hello(request.params);
  if (method == "ping") {
    co_return Json::object({{"episodes", static_cast<long long>(open_episodes())},
                            {"busy", static_cast<long long>(running_.size()) - 1},
                            {"stuck", 0}});
  }
  if (method == "tools") co_return co_await tools();
  if (method == "score") co_return co_await score(request);
  if (method != "reset" && method != "step" && method != "call" && method != "close") {
    co_return Failure{FailureClass::kInfrastructure, "unknown_method",
                      fmt::format("There is no method '{}'.", method)};
  }
  text_param(request.params, "episode");
  if (!request.episode) {
    if (method == "close") co_return Json::object();
    if (method == "reset") co_return bad_params("the episode is open already");
    co_return Failure{FailureClass::kEnvironment, "unknown_episode", "There is no such episode."};
  }
  const Permit turn = co_await request.episode->turn.acquire();
  if (method == "reset") co_return co_await reset(request);
  if (method == "step") co_return co_await step(request);
  if (method == "call") co_return co_await call(request);
  co_return co_await close(request);
}

Result<Json> ProtocolServer::hello(const Json& params) {
  const Json& versions = params.at("protocol");
  if (versions.at("min").as_int() > kProtocolVersion || versions.at("max").as_int() < kProtocolVersion) {
    return Failure{FailureClass::kInfrastructure, "version",
                   fmt::format("This process speaks version {} only.", kProtocolVersion)};
  }
  greeted_ = true;
  Json rewards = Json::array();
  for (const auto& reward : rewards_) {
    rewards.as_array().push_back(Json::object({{"name", reward->name()}, {"description", ""}}));
  }
  const Json environment =
      Json::object({{"name", name_}, {"description", ""}, {"snapshot", false}, {"scored", false}});
  return Json::object({{"protocol", kProtocolVersion},
                       {"server", hello_params(0).at("client")},
                       {"environments", Json::array({environment})},
                       {"tools", Json::array()},
                       {"rewards", std::move(rewards)},
                       {"limits", Json::object({{"line_bytes", 16777216},
                                                {"episodes", static_cast<long long>(kEpisodes)}})}});
}

Task<Result<Json>> ProtocolServer::tools() {
  const std::unique_ptr<Environment> environment = kind_.make(blocking_);
  Json tools = Json::array();
  for (const Tool* tool : environment->tools())
    tools.as_array().push_back(tool_schema_to_json(tool->schema()));
  co_await environment->close();
  co_return Json::object({{"tools", std::move(tools)}});
}

Task<Result<Json>> ProtocolServer::reset(const Request& request) {
  const TaskRow task = task_param(request.params);
  request.episode->environment = kind_.make(blocking_);
  Environment& environment = *request.episode->environment;
  std::exception_ptr thrown;
  Result<Observation> first = Observation{};
  try {
    first = co_await environment.reset(task, request.params.at("seed").as_uint());
  } catch (...) {
    thrown = std::current_exception();
  }
  if (!thrown && first) {
    Json result = observation_json(*first);
    Json tools = Json::array();
    for (const Tool* tool : environment.tools()) {
      tools.as_array().push_back(tool_schema_to_json(tool->schema()));
    }
    result.set("tools", std::move(tools));
    co_return result;
  }
  co_await shielded(environment.close());
  request.episode->environment = nullptr;
  if (thrown) std::rethrow_exception(thrown);
  co_return first.failure();
}

Task<Result<Json>> ProtocolServer::step(const Request& request) {
  if (!request.episode->environment) {
    co_return Failure{FailureClass::kEnvironment, "unknown_episode", "There is no such episode."};
  }
  Action action{.turn = static_cast<int32_t>(request.params.at("turn").as_int()),
                .text = text_param(request.params, "text")};
  const Json* content = request.params.find("content");
  action.content = content == nullptr || content->is_null() ? action.text : content->as_string();
  const Result<Observation> next = co_await request.episode->environment->step(action);
  if (!next) co_return next.failure();
  co_return observation_json(*next);
}

Task<Result<Json>> ProtocolServer::call(const Request& request) {
  const std::string& name = text_param(request.params, "tool");
  if (!request.episode->environment) {
    co_return Failure{FailureClass::kEnvironment, "unknown_episode", "There is no such episode."};
  }
  for (Tool* tool : request.episode->environment->tools()) {
    if (tool->schema().name != name) continue;
    const Result<ToolResult> result = co_await tool->call(request.params.at("arguments"));
    if (!result) co_return result.failure();
    co_return Json::object({{"content", result->content}, {"is_error", result->is_error}});
  }
  co_return bad_params(fmt::format("there is no tool '{}'", name));
}

Task<Result<Json>> ProtocolServer::close(const Request& request) {
  const std::unique_ptr<Environment> environment = std::move(request.episode->environment);
  if (environment) co_await environment->close();
  co_return Json::object();
}

Task<Result<Json>> ProtocolServer::score(const Request& request) {
  const std::string& name = text_param(request.params, "reward");
  const auto reward = std::find_if(rewards_.begin(), rewards_.end(),
                                   [&](const auto& known) { return known->name() == name; });
  if (reward == rewards_.end()) co_return bad_params(fmt::format("there is no reward '{}'", name));
  const TaskRow task = task_param(request.params);
  const std::vector<Message> messages = messages_from_json(request.params.at("messages"), "messages");
  EpisodeRecord record;
  record.task_id = task.id;
  record.failure = outcome_param(request.params);
  const EpisodeView view{task, messages, record, blocking_};
  const Result<RewardResult> result = co_await (*reward)->score(view);
  if (!result) co_return result.failure();
  Json answer = Json::object({{"reward", result->scored ? Json(result->reward) : Json()}});
  answer.set("success", result->success);
  co_return answer;
}

void ProtocolServer::refuse(std::optional<int64_t> id, const char* reason, const std::string& message) {
  Json answer = Json::object({{"id", id ? Json(static_cast<long long>(*id)) : Json()}});
  answer.set("error", error_json("protocol", reason, message));
  write_(answer.dump());
}

void ProtocolServer::reply(int64_t id, const Result<Json>& result) {
  if (result) return write_(result_line(id, *result));
  const Failure& failure = result.failure();
  for (const char* reason : {"bad_params", "unknown_method", "version"}) {
    if (failure.failure_class == FailureClass::kInfrastructure && failure.reason == reason) {
      return refuse(id, reason, failure.message);
    }
  }
  Json answer = Json::object({{"id", static_cast<long long>(id)}});
  answer.set("error", error_json(to_string(failure.failure_class), failure.reason, failure.message));
  write_(answer.dump());
}

Task<> ProtocolServer::finish() {
  scope_.cancel(CancelReason::kShutdown);
  for (auto& [id, source] : running_) source->request(CancelReason::kShutdown);
  try {
    co_await scope_.join();
  } catch (const Cancelled&) {
  }
  for (auto& [name, episode] : std::exchange(episodes_, {})) {
    if (episode->environment) co_await episode->environment->close();
  }
}

}  // namespace stoker
