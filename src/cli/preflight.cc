#include "cli/preflight.h"

#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "async/cancellation.h"
#include "async/run.h"
#include "base/error.h"
#include "base/log.h"
#include "text/tool_call_parser.h"

namespace stoker {
namespace {

double available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  double kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string megabytes(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

// The value of a tool's first argument in a trial call: what its schema's type allows.
Json trial_arguments(const ToolSchema& schema) {
  Json arguments = Json::object();
  const Json* properties = schema.parameters.find("properties");
  if (properties == nullptr || !properties->is_object()) return arguments;
  for (const auto& [name, property] : properties->as_object()) {
    const Json* type = property.find("type");
    std::string kind = type != nullptr && type->is_string() ? type->as_string() : "string";
    if (kind == "integer" || kind == "number")
      arguments.set(name, 1);
    else if (kind == "boolean")
      arguments.set(name, true);
    else if (kind == "array")
      arguments.set(name, Json::array());
    else if (kind == "object")
      arguments.set(name, Json::object());
    else
      arguments.set(name, "1+1");
  }
  return arguments;
}

// Renders a call as the policy would write it, parses it back, runs it.
Task<> check_tool(const Renderer& renderer, Tool& tool) {
  const ToolSchema& schema = tool.schema();
  Message turn{.role = Role::kAssistant};
  turn.tool_calls.push_back({.name = schema.name, .arguments = trial_arguments(schema)});
  Message question{.role = Role::kUser, .content = "?"};
  std::vector<Message> messages = {question, turn};
  Result<RenderedTokens> rendered = renderer.render(messages, {}, false);
  if (!rendered) throw input_error("A tool call cannot be rendered: " + rendered.failure().message);
  std::vector<int32_t> sampled;
  for (size_t i = 0; i < rendered->ids.size(); ++i) {
    bool stop = false;
    for (int32_t id : renderer.stop_tokens()) stop |= rendered->ids[i] == id;
    if (rendered->authors[i] == Author::kAssistant && !stop) sampled.push_back(rendered->ids[i]);
  }
  std::string text = renderer.tokenizer().decode(sampled);
  ParsedTurn parsed = make_tool_call_parser("hermes")->parse(text);
  if (parsed.calls.size() != 1 || parsed.calls[0].problem || parsed.calls[0].call.name != schema.name) {
    throw input_error(
        fmt::format("A call of tool {} does not survive rendering and parsing: \"{}\".", schema.name, text));
  }
  Result<ToolResult> result = co_await tool.call(parsed.calls[0].call.arguments);
  if (!result)
    throw input_error(
        fmt::format("Tool {} failed on a trial call: {}", schema.name, result.failure().message));
  log_info("Trial call {} -> \"{}\"{}", parsed.calls[0].call.arguments.dump(), result->content,
           result->is_error ? " (a tool error, shown to the model)" : "");
}

Task<> check_rewards(const EnvironmentKind& kind, const TaskRow& task, const std::vector<Message>& prompt) {
  std::vector<Message> messages = prompt;
  messages.push_back({.role = Role::kAssistant, .content = "?"});
  EpisodeRecord record;
  record.task_id = task.id;
  for (const std::unique_ptr<Reward>& reward : kind.rewards()) {
    Result<RewardResult> result =
        co_await reward->score({.task = task, .messages = messages, .record = record});
    if (!result) {
      throw input_error(fmt::format("Reward {} cannot score a trial episode: {}", reward->name(),
                                    result.failure().message));
    }
    log_info("Trial reward {} = {:g} for the answer \"?\"", reward->name(), result->reward);
  }
}

Task<> check_environment(Session& session, uint64_t seed) {
  TaskRow task = session.environment().training_tasks(seed)->task(0);
  std::unique_ptr<Environment> environment = session.environment().make();
  Result<Observation> first = co_await environment->reset(task, seed);
  if (!first) throw input_error(fmt::format("Task {} cannot be reset: {}", task.id, first.failure().message));
  std::vector<ToolSchema> schemas;
  for (Tool* tool : environment->tools()) schemas.push_back(tool->schema());
  Result<RenderedTokens> prompt = session.renderer().render(first->messages, schemas, true);
  if (!prompt)
    throw input_error(fmt::format("Task {} cannot be rendered: {}", task.id, prompt.failure().message));
  log_info("First prompt ({} tokens): {}", prompt->ids.size(),
           Json(session.tokenizer()->decode(prompt->ids)).dump());
  for (Tool* tool : environment->tools()) co_await check_tool(session.renderer(), *tool);
  co_await environment->close();
  co_await check_rewards(session.environment(), task, first->messages);
}

}  // namespace

MemoryPlan plan_memory(const ModelConfig& model, const EngineConfig& engine, int64_t micro_batch_tokens) {
  constexpr double kFloat = 4;
  auto parameters = static_cast<double>(model.parameter_count());
  // Per token and layer: inputs of norms, Q, K, V, attention output, both halves of the SwiGLU, and their
  // gradients.
  double per_token = 2.0 * model.num_hidden_layers *
                         (4.0 * model.hidden_size + 2.0 * model.query_size() + 2.0 * model.key_value_size() +
                          3.0 * model.intermediate_size) +
                     2.0 * model.vocab_size;
  return {.weights = 4 * parameters * kFloat,
          .optimizer = 3 * parameters * kFloat,
          .cache = static_cast<double>(engine.cache_megabytes) * (1 << 20),
          .activations = per_token * static_cast<double>(micro_batch_tokens) * kFloat,
          .available = available_memory()};
}

void check_memory(const MemoryPlan& plan) {
  log_info("Memory: weights {}, optimizer {}, KV cache up to {}, activations up to {}; {} of {} available",
           megabytes(plan.weights), megabytes(plan.optimizer), megabytes(plan.cache),
           megabytes(plan.activations), megabytes(plan.total()), megabytes(plan.available));
  if (plan.total() <= plan.available) return;
  const char* remedy = plan.cache >= plan.activations ? "engine.cache_megabytes" : "train.micro_batch_tokens";
  throw input_error(fmt::format("The run needs up to {} of memory and {} are available; lower {}.",
                                megabytes(plan.total()), megabytes(plan.available), remedy));
}

void check_before_run(Session& session, const RunConfig& config) {
  check_memory(plan_memory(session.weights()->config(), config.engine, config.train.micro_batch_tokens));
  run(session.executor(), check_environment(session, static_cast<uint64_t>(config.seed)), {}, "preflight");
}

}  // namespace stoker
