#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace stoker {

enum class Role { kSystem, kUser, kAssistant, kTool };

// "system", "user", "assistant", "tool".
const char* to_string(Role role);

// A model's call of a tool.
struct ToolCall {
  std::string id;    // names the call to its result; empty where the text form has none
  std::string name;  // of the tool
  Json arguments;    // an object; a string holds text that is no JSON object, as it was given
  std::string raw;   // the text the model wrote, where it came from text

  bool operator==(const ToolCall&) const = default;
};

// One message of a conversation, in the shape of OpenAI's chat completions.
struct Message {
  Role role = Role::kUser;
  std::string content;
  std::string reasoning;             // of an assistant: what it thought before `content`
  std::vector<ToolCall> tool_calls;  // of an assistant
  std::string tool_call_id;          // of a tool: the call that this answers
  std::string name;                  // of a tool: its name

  bool operator==(const Message&) const = default;
};

// A tool as the model sees it.
struct ToolSchema {
  std::string name;
  std::string description;
  Json parameters;  // JSON Schema of the arguments object; null: no arguments

  bool operator==(const ToolSchema&) const = default;
};

// OpenAI's JSON form. Content may be a string, null or a list of {"type": "text"} parts; call arguments an
// object or a string that holds one (decoded once, shared case TPL-09). `what` names the place in errors,
// which are Error(kInput).
Message message_from_json(const Json& json, const std::string& what);
std::vector<Message> messages_from_json(const Json& json, const std::string& what);
Json message_to_json(const Message& message);
Json messages_to_json(const std::vector<Message>& messages);

// {"type": "function", "function": {"name", "description", "parameters"}}, read also without the wrapper.
ToolSchema tool_schema_from_json(const Json& json, const std::string& what);
Json tool_schema_to_json(const ToolSchema& tool);

}  // namespace stoker
