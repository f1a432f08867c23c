#include "cli/preflight.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <memory>
#include <span>

#include "async/cancellation.h"
#include "async/quarantine.h"
#include "async/run.h"
#include "base/error.h"
#include "rollout/episode_world.h"

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

// A call as the policy would write it, without its end token.
std::string trial_call(const Renderer& renderer, const ToolSchema& schema) {
  Message turn{.role = Role::kAssistant};
  turn.tool_calls.push_back({.name = schema.name, .arguments = trial_arguments(schema)});
  std::vector<Message> messages = {{.role = Role::kUser, .content = "?"}, turn};
  Result<RenderedTokens> rendered = renderer.render(messages, {}, false);
  if (!rendered) throw input_error("A tool call cannot be rendered: " + rendered.failure().message);
  std::span<const int32_t> stops = renderer.stop_tokens();
  std::vector<int32_t> sampled;
  for (size_t i = 0; i < rendered->ids.size(); ++i) {
    bool stop = std::find(stops.begin(), stops.end(), rendered->ids[i]) != stops.end();
    if (rendered->authors[i] == Author::kAssistant && !stop) sampled.push_back(rendered->ids[i]);
  }
  return renderer.tokenizer().decode(sampled);
}

// One episode without a model: reset, the prompt, a call of each tool, close, the rewards of the answer "?";
// with the deadlines of a real one.
class TrialEpisode {
 public:
  TrialEpisode(Session& session, const RunConfig& config)
      : session_(session),
        config_(config),
        limits_(config.rollout.limits.limits),
        rewards_(session.environment().rewards()),
        quarantine_(session.executor()),
        data_(std::make_shared<EpisodeData>()),
        parts_{limits_, quarantine_, session.world()},
        world_(session.environment(), parts_, data_) {}

  Task<> run(BeforeRun* report) {
    report_ = report;
    std::exception_ptr failure;
    try {
      co_await play();
      co_await world_.score();
    } catch (...) {
      failure = std::current_exception();
    }
    co_await world_.close();
    if (!failure) {
      try {
        co_await score();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    co_await shielded(quarantine_.shut_down(std::chrono::seconds(1)));
    if (failure) std::rethrow_exception(failure);
  }

 private:
  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    report_->lines.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  Task<> play() {
    auto seed = static_cast<uint64_t>(config_.seed);
    data_->task = session_.environment().training_tasks(seed)->task(0);
    Result<Observation> first = co_await world_.reset(seed);
    if (!first) {
      throw input_error(fmt::format("Task {} cannot be reset: {}", data_->task.id, first.failure().message));
    }
    data_->messages = first->messages;
    data_->prompt_messages = first->messages.size();
    for (const std::shared_ptr<Tool>& tool : world_.tools()) report_->tools.push_back(tool->schema());
    Result<RenderedTokens> prompt = session_.renderer().render(first->messages, report_->tools, true);
    if (!prompt) {
      throw input_error(
          fmt::format("Task {} cannot be rendered: {}", data_->task.id, prompt.failure().message));
    }
    say("First prompt ({} tokens): {}", prompt->ids.size(), excerpt(*session_.tokenizer(), prompt->ids));
    if (config_.agent.kind != "tool") co_return;
    for (const ToolSchema& schema : report_->tools) co_await call(schema);
  }

  Task<> call(const ToolSchema& schema) {
    std::string text = trial_call(session_.renderer(), schema);
    Result<AgentTurn> turn = co_await session_.agent().interpret(text, world_.tools());
    if (!turn)
      throw input_error(
          fmt::format("Tool {} failed on a trial call: {}", schema.name, turn.failure().message));
    if (turn->tool_calls != 1 || turn->message.tool_calls.size() != 1) {
      throw input_error(fmt::format("A call of tool {} does not survive rendering and parsing: \"{}\".",
                                    schema.name, text));
    }
    say("Trial call {} {} -> \"{}\"{}", schema.name, turn->message.tool_calls[0].arguments.dump(),
        turn->tool_results[0].content, turn->tool_errors > 0 ? " (a tool error, shown to the model)" : "");
  }

  Task<> score() {
    data_->messages.push_back({.role = Role::kAssistant, .content = "?"});
    data_->record.task_id = data_->task.id;
    std::vector<double> weights = config_.rollout.reward_weights;
    if (weights.empty()) weights = session_.environment().reward_weights();
    weights.resize(rewards_.size(), 1.0);
    co_await score_episode(data_, rewards_, weights, parts_);
    if (data_->record.failure) {
      throw input_error("A trial episode cannot be scored: " + data_->record.failure->message);
    }
    for (const auto& [name, reward] : data_->record.rewards) {
      say("Trial reward {} = {:g} for the answer \"?\"", name, reward);
    }
  }

  Session& session_;
  const RunConfig& config_;
  EpisodeLimits limits_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  Quarantine quarantine_;
  std::shared_ptr<EpisodeData> data_;
  WorldParts parts_;
  EpisodeWorld world_;
  BeforeRun* report_ = nullptr;
};

// What the engine or an episode would refuse later is refused now.
void check_settings(Session& session, const RunConfig& config) {
  std::unique_ptr<NativeEngine> engine = session.make_engine(session.weights());
  session.training_runner(*engine);
  for (double temperature : config.evaluate.temperatures) session.evaluation_runner(*engine, temperature);
}

}  // namespace

std::string excerpt(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  constexpr size_t kPart = 400;
  if (tokens.size() <= 2 * kPart) return Json(tokenizer.decode(tokens)).dump();
  return Json(tokenizer.decode(tokens.first(kPart))).dump() + " ... " +
         Json(tokenizer.decode(tokens.last(kPart))).dump();
}

MemoryPlan plan_memory(const ModelConfig& model, ComputeType type, int64_t cache_megabytes,
                       int64_t micro_batch_tokens) {
  constexpr double kFloat = 4;
  auto parameters = static_cast<double>(model.parameter_count());
  // Per token and layer: inputs of norms, Q, K, V, attention output, both halves of the SwiGLU, and their
  // gradients.
  double per_token = 2.0 * model.num_hidden_layers *
                         (4.0 * model.hidden_size + 2.0 * model.query_size() + 2.0 * model.key_value_size() +
                          3.0 * model.intermediate_size) +
                     2.0 * model.vocab_size;
  // Weights: the learner's and their snapshot in float32; in the compute type packed forward and backward,
  // and packed again by the engines of training and of evaluation, of which publication holds two versions.
  return {.weights = parameters * (2 * kFloat + 5 * bytes_of(type)),
          .optimizer = 3 * parameters * kFloat,
          .cache = static_cast<double>(cache_megabytes) * (1 << 20),
          .activations = per_token * static_cast<double>(micro_batch_tokens) * kFloat,
          .available = available_memory()};
}

std::string check_memory(const MemoryPlan& plan, const std::string& activations_key) {
  if (plan.total() > plan.available) {
    throw input_error(
        fmt::format("The run needs up to {} of memory and {} are available; lower {}.",
                    megabytes(plan.total()), megabytes(plan.available),
                    plan.cache >= plan.activations ? "engine.cache_megabytes" : activations_key));
  }
  return fmt::format(
      "Memory: weights {}, optimizer {}, KV cache up to {}, activations up to {}; {} of {} available",
      megabytes(plan.weights), megabytes(plan.optimizer), megabytes(plan.cache), megabytes(plan.activations),
      megabytes(plan.total()), megabytes(plan.available));
}

BeforeRun check_environment(Session& session, const RunConfig& config, InterruptWatch& interrupts) {
  BeforeRun report;
  CancellationSource stop;
  auto delivery =
      interrupts.deliver_to(session.executor(), [&stop] { stop.request(CancelReason::kShutdown); });
  TrialEpisode trial(session, config);
  run(session.executor(), trial.run(&report), stop.token(), "preflight");
  return report;
}

BeforeRun check_before_run(Session& session, const RunConfig& config, InterruptWatch& interrupts) {
  // Training and evaluation each have an engine with a cache of its own.
  std::string memory =
      check_memory(plan_memory(session.weights()->config(), compute_type(config.model.compute_type),
                               2 * int64_t{config.engine.cache_megabytes}, config.train.micro_batch_tokens),
                   "train.micro_batch_tokens");
  check_settings(session, config);
  BeforeRun report = check_environment(session, config, interrupts);
  report.lines.insert(report.lines.begin(), memory);
  return report;
}

}  // namespace stoker
