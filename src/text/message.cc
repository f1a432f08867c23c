#include "text/message.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stoker {
namespace {

constexpr Role kRoles[] = {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool};

Error bad(const std::string& what, const std::string& sentence) {
  return input_error(fmt::format("{}: {}.", what, sentence));
}

// A member that may be absent or null.
std::string optional_text(const Json& json, const char* key, const std::string& what) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return "";
  if (!value->is_string())
    throw bad(what, fmt::format("'{}' must be a string, found {}", key, value->type_name()));
  return value->as_string();
}

Role role_from_json(const Json& json, const std::string& what) {
  const Json* value = json.find("role");
  std::string name = value != nullptr && value->is_string() ? value->as_string() : "";
  for (Role role : kRoles) {
    if (name == to_string(role)) return role;
  }
  if (name == "developer") return Role::kSystem;
  throw bad(what, fmt::format("'role' must be system, user, assistant or tool, found {}",
                              value == nullptr ? "nothing" : value->dump().substr(0, 80)));
}

std::string content_from_json(const Json& json, const std::string& what) {
  const Json* content = json.find("content");
  if (content == nullptr || content->is_null()) return "";
  if (content->is_string()) return content->as_string();
  if (!content->is_array()) throw bad(what, "'content' must be a string, null or a list of text parts");
  std::string text;
  for (const Json& part : content->as_array()) {
    const Json* type = part.find("type");
    if (type == nullptr || *type != Json("text")) throw bad(what, "'content' holds a part that is no text");
    text += optional_text(part, "text", what);
  }
  return text;
}

// Arguments as an object; text that holds no JSON object stays text.
Json arguments_from_json(const Json* arguments) {
  if (arguments == nullptr || arguments->is_null()) return Json::object();
  if (!arguments->is_string()) return *arguments;
  Result<Json> parsed = Json::try_parse(arguments->as_string());
  if (parsed && parsed->is_object()) return std::move(parsed).value();
  return *arguments;
}

ToolCall tool_call_from_json(const Json& json, const std::string& what) {
  const Json* function = json.find("function");
  const Json& body = function == nullptr ? json : *function;
  ToolCall call;
  call.id = optional_text(json, "id", what);
  call.name = optional_text(body, "name", what);
  if (call.name.empty()) throw bad(what, "a call has no function name");
  call.arguments = arguments_from_json(body.find("arguments"));
  if (!call.arguments.is_object() && !call.arguments.is_string()) {
    throw bad(what, fmt::format("the arguments of '{}' must be an object, found {}", call.name,
                                call.arguments.type_name()));
  }
  return call;
}

Json tool_call_to_json(const ToolCall& call) {
  std::string arguments = call.arguments.is_string() ? call.arguments.as_string() : call.arguments.dump();
  return Json::object(
      {{"id", call.id},
       {"type", "function"},
       {"function", Json::object({{"name", call.name}, {"arguments", std::move(arguments)}})}});
}

}  // namespace

const char* to_string(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  throw internal_error("A message has a role that is no member of Role.");
}

Message message_from_json(const Json& json, const std::string& what) {
  if (!json.is_object())
    throw bad(what, fmt::format("a message must be an object, found {}", json.type_name()));
  Message message;
  message.role = role_from_json(json, what);
  message.content = content_from_json(json, what);
  message.reasoning = optional_text(json, "reasoning_content", what);
  message.tool_call_id = optional_text(json, "tool_call_id", what);
  message.name = optional_text(json, "name", what);
  const Json* calls = json.find("tool_calls");
  if (calls == nullptr || calls->is_null()) return message;
  if (!calls->is_array()) throw bad(what, "'tool_calls' must be a list");
  for (const Json& call : calls->as_array()) message.tool_calls.push_back(tool_call_from_json(call, what));
  return message;
}

std::vector<Message> messages_from_json(const Json& json, const std::string& what) {
  if (!json.is_array()) throw bad(what, fmt::format("messages must be a list, found {}", json.type_name()));
  std::vector<Message> messages;
  for (const Json& message : json.as_array()) {
    messages.push_back(message_from_json(message, fmt::format("{}, message {}", what, messages.size())));
  }
  return messages;
}

Json message_to_json(const Message& message) {
  Json json = Json::object({{"role", to_string(message.role)}, {"content", message.content}});
  if (!message.reasoning.empty()) json.set("reasoning_content", message.reasoning);
  if (!message.tool_calls.empty()) {
    Json calls = Json::array();
    for (const ToolCall& call : message.tool_calls) calls.as_array().push_back(tool_call_to_json(call));
    json.set("tool_calls", std::move(calls));
  }
  if (!message.tool_call_id.empty()) json.set("tool_call_id", message.tool_call_id);
  if (!message.name.empty()) json.set("name", message.name);
  return json;
}

Json messages_to_json(const std::vector<Message>& messages) {
  Json json = Json::array();
  for (const Message& message : messages) json.as_array().push_back(message_to_json(message));
  return json;
}

ToolSchema tool_schema_from_json(const Json& json, const std::string& what) {
  const Json* function = json.find("function");
  const Json& body = function == nullptr ? json : *function;
  ToolSchema tool;
  tool.name = optional_text(body, "name", what);
  if (tool.name.empty()) throw bad(what, "a tool has no 'name'");
  tool.description = optional_text(body, "description", what);
  if (const Json* parameters = body.find("parameters")) tool.parameters = *parameters;
  if (!tool.parameters.is_null() && !tool.parameters.is_object()) {
    throw bad(what, fmt::format("'parameters' of tool '{}' must be an object, found {}", tool.name,
                                tool.parameters.type_name()));
  }
  return tool;
}

Json tool_schema_to_json(const ToolSchema& tool) {
  Json function = Json::object({{"name", tool.name}, {"description", tool.description}});
  if (!tool.parameters.is_null()) function.set("parameters", tool.parameters);
  return Json::object({{"type", "function"}, {"function", std::move(function)}});
}

}  // namespace stoker
