#include "rollout/agent.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "async/cancellation.h"
#include "async/collect.h"
#include "async/timeout.h"
#include "rollout/deadline.h"
#include "text/json_schema.h"
#include "text/tool_call_parser.h"

namespace stoker {
namespace {

class ConversationAgent final : public Agent {
 public:
  Task<Result<AgentTurn>> interpret(const std::string& text, const Tools& tools) override {
    ParsedTurn parsed = parser_->parse(text);
    AgentTurn turn;
    turn.message.role = Role::kAssistant;
    turn.message.content = std::move(parsed.content);
    turn.message.reasoning = std::move(parsed.reasoning);
    co_return turn;
  }

 private:
  std::unique_ptr<const ToolCallParser> parser_ = make_tool_call_parser("none");
};

ToolResult tool_error(std::string sentence) { return {.content = "error: " + sentence, .is_error = true}; }

// Owns what it touches, so that it may be abandoned.
Task<Result<ToolResult>> run_tool(std::shared_ptr<Tool> tool, Json arguments) {
  co_return co_await tool->call(arguments);
}

class ToolAgent final : public Agent {
 public:
  explicit ToolAgent(const ToolAgentOptions& options)
      : options_(options), parser_(make_tool_call_parser(options.call_format)) {}

  Task<Result<AgentTurn>> interpret(const std::string& text, const Tools& tools) override;

 private:
  Task<Result<ToolResult>> answer(const ParsedCall& call, const Tools& tools);
  Task<std::vector<Result<ToolResult>>> answer_all(const std::vector<ParsedCall>& calls, const Tools& tools);
  const JsonSchema& schema_of(const Tool& tool);

  ToolAgentOptions options_;
  std::unique_ptr<const ToolCallParser> parser_;
  std::map<std::string, JsonSchema> schemas_;  // by tool name: compiled once, not once a call
  std::optional<Quarantine> quarantine_;       // made by the first call, on its executor
};

Task<Result<AgentTurn>> ToolAgent::interpret(const std::string& text, const Tools& tools) {
  ParseOptions reading;
  if (parser_->reads_tools()) {
    for (const std::shared_ptr<Tool>& tool : tools) reading.tools.push_back(tool->schema());
  }
  ParsedTurn parsed = parser_->parse(text, reading);
  AgentTurn turn;
  turn.message.role = Role::kAssistant;
  turn.message.content = std::move(parsed.content);
  turn.message.reasoning = std::move(parsed.reasoning);
  if (parsed.calls.empty()) co_return turn;

  turn.tool_calls = static_cast<int32_t>(parsed.calls.size());
  std::vector<Result<ToolResult>> results;
  if (parsed.calls.size() == 1) {
    results.push_back(co_await answer(parsed.calls[0], tools));
  } else {
    results = co_await answer_all(parsed.calls, tools);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) co_return results[i].failure();
    turn.tool_errors += results[i]->is_error ? 1 : 0;
    ToolCall& call = parsed.calls[i].call;
    if (call.id.empty()) call.id = fmt::format("call_{}", i);
    Message& message = turn.tool_results.emplace_back();
    message.role = Role::kTool;
    message.content = cut_tool_result(results[i]->content, static_cast<size_t>(options_.max_result_bytes),
                                      options_.keep_end_of_result);
    message.tool_call_id = call.id;
    message.name = call.name;
    turn.message.tool_calls.push_back(std::move(call));
  }
  co_return turn;
}

Task<std::vector<Result<ToolResult>>> ToolAgent::answer_all(const std::vector<ParsedCall>& calls,
                                                            const Tools& tools) {
  std::vector<Task<Result<ToolResult>>> tasks;
  for (const ParsedCall& call : calls) tasks.push_back(answer(call, tools));
  return collect_all_windowed(std::move(tasks), static_cast<size_t>(options_.max_parallel_calls));
}

Task<Result<ToolResult>> ToolAgent::answer(const ParsedCall& call, const Tools& tools) {
  if (call.problem) co_return tool_error(call.problem->message);
  for (const std::shared_ptr<Tool>& tool : tools) {
    if (tool->schema().name != call.call.name) continue;
    if (const std::optional<std::string> problem = schema_of(*tool).validate(call.call.arguments)) {
      co_return tool_error(*problem);
    }
    if (!quarantine_) quarantine_.emplace(co_await current_executor());
    const OutsideCall about{.failure_class = FailureClass::kTool,
                            .task = "tool",
                            .subject = "The tool",
                            .name = tool->schema().name,
                            .limit_seconds = options_.tool_timeout_seconds};
    Result<ToolResult> result =
        co_await call_outside(*quarantine_, about, run_tool(tool, call.call.arguments));
    if (!result && options_.show_failures) co_return tool_error(result.failure().message);
    co_return result;
  }
  std::string known;
  for (const std::shared_ptr<Tool>& tool : tools) known += (known.empty() ? "" : ", ") + tool->schema().name;
  co_return tool_error(fmt::format("there is no tool named '{}'; {}.",
                                   cut_tool_result(call.call.name, 64, false),
                                   known.empty() ? "there are no tools" : "the tools are: " + known));
}

const JsonSchema& ToolAgent::schema_of(const Tool& tool) {
  const ToolSchema& schema = tool.schema();
  const auto found = schemas_.find(schema.name);
  if (found != schemas_.end() && found->second.schema() == schema.parameters) return found->second;
  return schemas_
      .insert_or_assign(schema.name, JsonSchema(schema.parameters, fmt::format("tool '{}'", schema.name)))
      .first->second;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string cut_tool_result(std::string_view text, size_t max_bytes, bool keep_end) {
  if (text.size() <= max_bytes) return std::string(text);
  if (keep_end) {
    size_t begin = text.size() - max_bytes;
    while (begin < text.size() && continues_character(text[begin])) ++begin;
    return "(truncated)..." + std::string(text.substr(begin));
  }
  size_t end = max_bytes;
  while (end > 0 && continues_character(text[end])) --end;
  return std::string(text.substr(0, end)) + "...(truncated)";
}

std::unique_ptr<Agent> make_conversation_agent() { return std::make_unique<ConversationAgent>(); }

std::unique_ptr<Agent> make_tool_agent(const ToolAgentOptions& options) {
  check_limit_seconds("tool_timeout_seconds", options.tool_timeout_seconds);
  if (options.max_parallel_calls < 1) {
    throw input_error(
        fmt::format("max_parallel_calls is {}; it must be at least 1.", options.max_parallel_calls));
  }
  if (options.max_result_bytes < 1) {
    throw input_error(
        fmt::format("max_result_bytes is {}; it must be at least 1.", options.max_result_bytes));
  }
  return std::make_unique<ToolAgent>(options);
}

}  // namespace stoker
