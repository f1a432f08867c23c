#include "environment/testing/outside_server.h"

#include <charconv>
#include <utility>

#include "environment/command/protocol.h"

namespace stoker::testing {
namespace {

Json error_of(const char* error_class, const char* reason, const std::string& message) {
  return Json::object(
      {{"error", Json::object({{"class", error_class}, {"reason", reason}, {"message", message}})}});
}

Json hello(int64_t episode_limit) {
  Json environment =
      Json::object({{"name", "Count"}, {"description", "Counts."}, {"snapshot", true}, {"scored", true}});
  Json limits = Json::object({{"line_bytes", 16777216}});
  if (episode_limit > 0) limits.set("episodes", static_cast<long long>(episode_limit));
  return Json::object(
      {{"protocol", 1},
       {"server", Json::object({{"name", "outside-server"}, {"version", "1"}})},
       {"environments", Json::array({std::move(environment)})},
       {"tools", Json::array({"double"})},
       {"rewards", Json::array({Json::object({{"name", "length"}}), Json::object({{"name", "unsure"}})})},
       {"limits", std::move(limits)}});
}

Json tools(bool of_environment) {
  Json parameters = Json::parse(
      R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false})");
  Json function =
      Json::object({{"name", of_environment ? "value" : "double"},
                    {"description", "Says a number."},
                    {"parameters", of_environment ? Json::object({{"type", "object"}}) : parameters}});
  return Json::object(
      {{"tools", Json::array({Json::object({{"type", "function"}, {"function", std::move(function)}})})}});
}

Json member_or(const Json& object, const char* name, Json otherwise) {
  const Json* found = object.find(name);
  return found == nullptr ? otherwise : *found;
}

class OutsideScript final : public ProcessScript {
 public:
  OutsideScript(std::shared_ptr<OutsideTotals> totals, int64_t episode_limit)
      : server_(episode_limit), totals_(std::move(totals)) {}
  ~OutsideScript() override {
    totals_->broken += server_.broken();
    totals_->closes += server_.closes();
    if (ended_in_order_) totals_->left_open += server_.open_episodes();
  }

  void line(ScriptedProcess& process, std::string_view text) override {
    if (hung_) return;
    OutsideServer::Reaction reaction = server_.react(text);
    if (reaction.then == OutsideServer::Reaction::Then::kHang) hung_ = true;
    for (std::string& line : reaction.lines) process.say(std::move(line));
    if (reaction.then == OutsideServer::Reaction::Then::kCrash) process.end({.exit_status = 9});
  }
  void input_closed(ScriptedProcess& process) override {
    if (hung_) return;
    ended_in_order_ = true;
    process.end({});
  }

 private:
  OutsideServer server_;
  std::shared_ptr<OutsideTotals> totals_;
  bool hung_ = false;
  bool ended_in_order_ = false;
};

}  // namespace

OutsideServer::Reaction OutsideServer::react(std::string_view line) {
  Reaction reaction;
  const Json message = Json::parse(line);
  const std::string method = message.at("method").as_string();
  const Json params = member_or(message, "params", Json::object());
  if (method == "cancel") {
    const int64_t id = params.at("id").as_int();
    if (mute_.erase(id) == 0) return reaction;
    ++stuck_;
    Json cancelled = error_of("cancelled", "cancelled", "It was cancelled.");
    cancelled.set("id", static_cast<long long>(id));
    reaction.lines.push_back(cancelled.dump());
    return reaction;
  }
  const int64_t id = message.at("id").as_int();
  Json content = answer(id, method, params, reaction);
  if (content.is_null()) return reaction;
  Json whole = Json::object({{"id", static_cast<long long>(id)}});
  for (auto& [name, value] : content.as_object()) whole.set(name, std::move(value));
  reaction.lines.push_back(whole.dump());
  return reaction;
}

Json OutsideServer::answer(int64_t id, const std::string& method, const Json& params, Reaction& reaction) {
  auto result = [](Json value) { return Json::object({{"result", std::move(value)}}); };
  if (method == "hello") return result(hello(episode_limit_));
  if (method == "ping") {
    return result(Json::object({{"episodes", static_cast<long long>(open_episodes())},
                                {"busy", 0},
                                {"stuck", static_cast<long long>(stuck_)}}));
  }
  if (method == "tools") return result(tools(params.find("environment") != nullptr));
  if (method == "step") return step(id, params, reaction);
  const std::string episode = params.find("episode") ? params.at("episode").as_string() : "";
  if (method == "reset") {
    const Json& task = params.at("task");
    if (!episodes_.emplace(episode, task.at("fields")).second) ++broken_;
    if (episode_limit_ > 0 && open_episodes() > episode_limit_) ++broken_;
    return result(Json::object(
        {{"messages",
          Json::array({Json::object({{"role", "user"}, {"content", "Task " + task.at("id").as_string()}})})},
         {"done", false}}));
  }
  if (method == "snapshot") {
    const auto open = episodes_.find(episode);
    if (open == episodes_.end())
      return error_of("environment", "unknown_episode", "There is no such episode.");
    return result(Json::object({{"state", member_or(open->second, "value", 0)}}));
  }
  if (method == "restore") {
    Json fields = params.at("task").at("fields");
    if (member_or(fields, "do", "") != Json("forget")) fields.set("value", params.at("state"));
    if (!episodes_.emplace(episode, std::move(fields)).second) ++broken_;
    return result(Json::object());
  }
  if (method == "close") {
    ++closes_;
    episodes_.erase(episode);
    return result(Json::object());
  }
  if (method == "call") {
    if (params.at("tool").as_string() == "double") {
      return result(Json::object({{"content", std::to_string(2 * params.at("arguments").at("x").as_int())}}));
    }
    const auto open = episodes_.find(episode);
    if (open == episodes_.end())
      return error_of("environment", "unknown_episode", "There is no such episode.");
    return result(
        Json::object({{"content", member_or(open->second, "value", 0).dump()}, {"is_error", false}}));
  }
  if (method == "score") {
    const std::string reward = params.at("reward").as_string();
    if (reward == "unsure") return result(Json::object({{"reward", nullptr}}));
    if (reward == "length") {
      return result(Json::object({{"reward", static_cast<int>(params.at("messages").as_array().size())}}));
    }
    const auto open = episodes_.find(episode);
    if (open == episodes_.end())
      return error_of("environment", "unknown_episode", "There is no such episode.");
    return result(Json::object({{"reward", member_or(open->second, "value", 0)}}));
  }
  return error_of("protocol", "unknown_method", "There is no method '" + method + "'.");
}

Json OutsideServer::step(int64_t id, const Json& params, Reaction& reaction) {
  const auto open = episodes_.find(params.at("episode").as_string());
  if (open == episodes_.end()) {
    ++broken_;
    return error_of("environment", "unknown_episode", "There is no such episode.");
  }
  Json what = member_or(open->second, "do", "");
  if (what == Json("told")) {
    const std::string text = params.at("text").as_string();
    what = text;
    int value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) {
      open->second.set("value", value);
    }
  }
  if (what == Json("crash")) reaction.then = Reaction::Then::kCrash;
  if (what == Json("hang")) reaction.then = Reaction::Then::kHang;
  if (what == Json("crash") || what == Json("hang")) return Json();
  if (what == Json("count") || what == Json("forget")) {
    const int64_t value = member_or(open->second, "value", 0).as_int() + 1;
    open->second.set("value", static_cast<long long>(value));
    Json said = Json::object({{"role", "user"}, {"content", std::to_string(value)}});
    return Json::object(
        {{"result", Json::object({{"messages", Json::array({std::move(said)})}, {"done", false}})}});
  }
  if (what == Json("mute")) {
    mute_[id] = true;
    return Json();
  }
  if (what == Json("garbage")) reaction.lines.assign(1100, "Traceback: no JSON");
  if (what == Json("flood")) reaction.stderr_lines = 300;
  if (what == Json("fail")) return error_of("environment", "planted", "A failure was planted.");
  Json result = Json::object({{"messages", Json::array()}, {"done", true}});
  if (what == Json("limit")) result.set("truncated", true);
  if (what == Json("long")) result.set("padding", std::string(100'000, 'x'));
  return Json::object({{"result", std::move(result)}});
}

std::unique_ptr<ProcessScript> make_outside_script(std::shared_ptr<OutsideTotals> totals,
                                                   int64_t episode_limit) {
  return std::make_unique<OutsideScript>(std::move(totals), episode_limit);
}

}  // namespace stoker::testing
