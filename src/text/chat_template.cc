#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "text/jinja/json_values.h"

namespace stoker {
namespace {

using jinja::Source;
using jinja::Value;

constexpr size_t kMaxFileBytes = size_t{64} << 20;

Author author_of(std::string_view role) {
  if (role == "assistant") return Author::kAssistant;
  if (role == "user") return Author::kUser;
  if (role == "system" || role == "developer") return Author::kSystem;
  return Author::kTool;
}

// Names of roles that templates write into their headers. Others are text of whoever gave them.
bool is_role_name(std::string_view role) {
  static constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                                "tool",   "function",  "ipython", "model"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

Value role_value(const std::string& role, Source source) {
  return Value(role, is_role_name(role) ? Source{Author::kTemplate, true} : source);
}

using Members = std::vector<std::pair<Value, Value>>;

void add_text(Members& members, const char* name, const std::string& text, Source source) {
  members.emplace_back(Value(std::string(name), source), Value(text, source));
}

Value call_arguments(const Json& arguments, Source source) {
  if (arguments.is_string()) {
    Result<Value> decoded = jinja::parse_json_value(arguments.as_string(), source);
    if (decoded && decoded->is_dict()) return *decoded;
  }
  return jinja::from_json(arguments, source);
}

Value call_value(const ToolCall& call, Source source) {
  Members function;
  add_text(function, "name", call.name, source);
  function.emplace_back(Value(std::string("arguments"), source), call_arguments(call.arguments, source));
  Members members;
  if (!call.id.empty()) add_text(members, "id", call.id, source);
  add_text(members, "type", "function", source);
  members.emplace_back(Value(std::string("function"), source), jinja::make_dict(std::move(function), source));
  return jinja::make_dict(std::move(members), source);
}

Value message_value(const Message& message, int index) {
  std::string role = to_string(message.role);
  Source source{author_of(role), false};
  Members members;
  members.emplace_back(Value(std::string("role"), source), role_value(role, source));
  add_text(members, "content", message.content, source);
  if (!message.reasoning.empty()) add_text(members, "reasoning_content", message.reasoning, source);
  if (!message.tool_calls.empty()) {
    std::vector<Value> calls;
    for (const ToolCall& call : message.tool_calls) calls.push_back(call_value(call, source));
    members.emplace_back(Value(std::string("tool_calls"), source),
                         jinja::make_list(std::move(calls), jinja::ListKind::kList, source));
  }
  if (!message.tool_call_id.empty()) add_text(members, "tool_call_id", message.tool_call_id, source);
  if (!message.name.empty()) add_text(members, "name", message.name, source);
  return jinja::make_dict(std::move(members), source, index);
}

Json read_json(const std::filesystem::path& path) {
  return Json::parse(read_file(path, kMaxFileBytes), path.string());
}

}  // namespace

Value chat_messages(const Value& json) {
  const jinja::List* list = json.list();
  if (list == nullptr) return json;
  std::vector<Value> messages;
  int index = 0;
  for (const Value& item : list->items) {
    const jinja::Dict* dict = item.dict();
    if (dict == nullptr) {
      messages.push_back(item);
      ++index;
      continue;
    }
    const Value* role = dict->find(std::string_view("role"));
    bool named = role != nullptr && role->text() != nullptr;
    Source source{author_of(named ? role->text()->bytes() : std::string()), false};
    Members members;
    for (const auto& [key, value] : dict->members) {
      bool is_role = named && &value == role;
      members.emplace_back(jinja::with_source(key, source), is_role
                                                                ? role_value(role->text()->bytes(), source)
                                                                : jinja::with_source(value, source));
    }
    messages.emplace_back(jinja::make_dict(std::move(members), source, index++));
  }
  return jinja::make_list(std::move(messages));
}

Value chat_messages(std::span<const Message> messages) {
  std::vector<Value> values;
  values.reserve(messages.size());
  for (const Message& message : messages)
    values.push_back(message_value(message, static_cast<int>(values.size())));
  return jinja::make_list(std::move(values));
}

Value chat_tools(std::span<const ToolSchema> tools) {
  if (tools.empty()) return {};
  std::vector<Value> values;
  Source source{Author::kSystem, false};
  for (const ToolSchema& tool : tools) values.push_back(jinja::from_json(tool_schema_to_json(tool), source));
  return jinja::make_list(std::move(values), jinja::ListKind::kList, source);
}

void ChatTemplate::add(const std::string& name, const std::string& source, const std::string& what) {
  Result<jinja::Template> compiled = jinja::Template::compile(source);
  if (!compiled)
    throw input_error(
        fmt::format("The chat template in {} cannot be used: {}.", what, compiled.failure().message));
  templates_.push_back({name, source, std::move(*compiled)});
}

void ChatTemplate::add_json(const Json& json, const std::string& what) {
  if (json.is_string()) return add("default", json.as_string(), what);
  if (!json.is_array())
    throw input_error(
        fmt::format("\"chat_template\" in {} must be text or a list of named templates, found {}.", what,
                    json.type_name()));
  for (const Json& named : json.as_array()) {
    const Json* name = named.find("name");
    const Json* source = named.find("template");
    if (name == nullptr || source == nullptr || !name->is_string() || !source->is_string())
      throw input_error(fmt::format("A chat template in {} lacks its \"name\" or \"template\".", what));
    add(name->as_string(), source->as_string(), fmt::format("{} (\"{}\")", what, name->as_string()));
  }
}

ChatTemplate ChatTemplate::from_source(const std::string& source, SpecialTokenNames tokens,
                                       const std::string& what) {
  ChatTemplate result;
  result.tokens_ = std::move(tokens);
  result.add("default", source, what);
  return result;
}

bool ChatTemplate::is_in(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / "chat_template.jinja")) return true;
  if (std::filesystem::exists(directory / "chat_template.json")) return true;
  std::filesystem::path config = directory / "tokenizer_config.json";
  if (!std::filesystem::exists(config)) return false;
  const Json json = read_json(config);
  const Json* chat_template = json.find("chat_template");
  return chat_template != nullptr && !chat_template->is_null();
}

ChatTemplate ChatTemplate::load(const std::filesystem::path& path) {
  ChatTemplate result;
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path)) {
    result.tokens_ = load_special_tokens(path);
    for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
      file = path / name;
      if (std::filesystem::exists(file)) break;
    }
  }
  if (!std::filesystem::exists(file))
    throw input_error(
        fmt::format("There is no chat template at {}; a model directory needs chat_template.jinja, "
                    "chat_template.json or tokenizer_config.json.",
                    path.string()));
  if (file.extension() != ".json") {
    result.add("default", read_file(file, kMaxFileBytes), file.string());
    return result;
  }
  SpecialTokenNames tokens = std::move(result.tokens_);
  result = from_json(read_json(file), file.string());
  result.tokens_ = std::move(tokens);
  return result;
}

ChatTemplate ChatTemplate::from_json(const Json& tokenizer_config, const std::string& what) {
  ChatTemplate result;
  result.tokens_ = special_tokens_of(tokenizer_config);
  const Json* chat_template = tokenizer_config.find("chat_template");
  if (chat_template == nullptr)
    throw input_error(fmt::format("{} has no \"chat_template\"; name a file that has one.", what));
  result.add_json(*chat_template, what);
  if (result.templates_.empty())
    throw input_error(fmt::format("\"chat_template\" in {} is an empty list.", what));
  return result;
}

const ChatTemplate::Named& ChatTemplate::chosen(bool with_tools) const {
  const Named* chosen = &templates_.front();
  for (const Named& named : templates_) {
    if (named.name == "default" && (!with_tools || chosen->name != "tool_use")) chosen = &named;
    if (named.name == "tool_use" && with_tools) chosen = &named;
  }
  return *chosen;
}

Result<jinja::Rendered> ChatTemplate::render(const ChatInput& input, const jinja::CivilTime& now,
                                             const jinja::RenderLimits& limits) const {
  jinja::Variables variables;
  for (const auto& [name, text] : tokens_) variables.emplace_back(name, Value(text, jinja::kTemplateSource));
  for (const auto& variable : input.variables) variables.push_back(variable);
  variables.emplace_back("messages", input.messages);
  if (!input.tools.is_undefined()) variables.emplace_back("tools", input.tools);
  variables.emplace_back("add_generation_prompt", Value(input.add_generation_prompt));
  return chosen(!input.tools.is_undefined() && !input.tools.is_none())
      .compiled.render(variables, now, limits);
}

SpecialTokenNames special_tokens_of(const Json& tokenizer_config) {
  SpecialTokenNames tokens;
  if (!tokenizer_config.is_object()) return tokens;
  for (const auto& [name, value] : tokenizer_config.as_object()) {
    if (!name.ends_with("_token")) continue;
    const Json* content = value.find("content");
    const Json& text = content == nullptr ? value : *content;
    if (text.is_string()) tokens.emplace_back(name, text.as_string());
  }
  return tokens;
}

SpecialTokenNames load_special_tokens(const std::filesystem::path& directory) {
  std::filesystem::path config = directory / "tokenizer_config.json";
  if (!std::filesystem::exists(config)) return {};
  return special_tokens_of(read_json(config));
}

}  // namespace stoker
