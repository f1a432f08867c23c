#include "cli/preflight.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <memory>
#include <span>

#include "async/cancellation.h"
#include "async/quarantine.h"
#include "async/run.h"
#include "base/error.h"
#include "compute/cpu/memory_use.h"
#include "rollout/episode_world.h"

namespace stoker {
namespace {

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
        settings_{.limits = config.rollout.limits.limits},
        rewards_(session.environment().rewards()),
        quarantine_(session.executor()),
        data_(std::make_shared<EpisodeData>()),
        parts_{settings_, quarantine_, session.world()},
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
    if (const std::optional<Failure> failure = co_await world_.open()) {
      throw input_error(
          fmt::format("There is no environment for task {}: {}", data_->task.id, failure->message));
    }
    const Result<Observation> first = co_await world_.reset(seed);
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
  EpisodeSettings settings_;
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

std::optional<Recompute> recompute_setting(const std::string& name) {
  if (name == "auto") return std::nullopt;
  return recompute_form(name);
}

static double model_bytes(const ModelConfig& model) {
  return static_cast<double>(model.parameter_count()) * sizeof(float);
}

static MemoryPlan plan_with(const ModelConfig& model, const MemorySettings& settings, Recompute form) {
  const ComputeType type = settings.compute_type;
  const double floats = model_bytes(model);
  const auto packed = static_cast<double>(cpu::packed_weight_bytes(model, type));
  // In float32 the learner's weights and their snapshot, and where engines serve also the snapshot before,
  // which the run and its replicas keep until the next one is published; packed forward and backward; and
  // packed again by the engines, all of which but that of evaluation hold two versions while one is
  // published.
  const int plain = settings.engines > 0 ? 3 : 2;
  const int versions = settings.engines > 0 ? 2 * (settings.engines - 1) + 1 : 0;
  // A child reads published weights in float32 and holds them packed beside those that it serves.
  const double children = settings.child_engines * (floats + 2 * packed);
  const int caches = settings.engines + settings.child_engines;
  return {.weights = plain * floats + static_cast<double>(cpu::backward_weight_bytes(model, type)) +
                     (1 + versions) * packed + children,
          .optimizer = 3 * floats,
          .cache = static_cast<double>(caches * settings.cache_megabytes) * (1 << 20),
          .activations = static_cast<double>(cpu::training_bytes(
              model, type, form, settings.vocabulary_size, settings.micro_batch_tokens, settings.threads)),
          .recompute = form};
}

MemoryPlan plan_memory(const ModelConfig& model, const MemorySettings& settings, double budget) {
  if (settings.recompute) return plan_with(model, settings, *settings.recompute);
  MemoryPlan plan;
  for (const Recompute form : kRecomputeForms) {
    plan = plan_with(model, settings, form);
    if (plan.total() <= budget) break;
  }
  return plan;
}

// One setting, or several, with which the run fits into `budget` bytes; empty when there is none.
static std::string smaller_settings(const ModelConfig& model, const MemorySettings& settings, double budget) {
  const auto fits = [&](const MemorySettings& other) {
    return plan_memory(model, other, budget).total() <= budget;
  };
  // The most of a number that still fits, in halvings; 0: none.
  const auto most = [&](MemorySettings other, int64_t MemorySettings::* number, int64_t least) {
    while (other.*number > least && !fits(other)) other.*number = std::max(least, other.*number / 2);
    return fits(other) ? other.*number : 0;
  };
  MemorySettings open = settings;
  open.recompute.reset();
  if (fits(open)) {
    return fmt::format("set recompute={}", to_string(plan_memory(model, open, budget).recompute));
  }
  constexpr int64_t kLeastCache = 16, kLeastTokens = 256;
  const MemoryPlan plan = plan_memory(model, settings, budget);
  const int64_t cache =
      settings.engines > 0 ? most(settings, &MemorySettings::cache_megabytes, kLeastCache) : 0;
  const int64_t tokens = most(settings, &MemorySettings::micro_batch_tokens, kLeastTokens);
  const bool cache_first = tokens == 0 || plan.cache >= plan.activations;
  if (cache > 0 && cache_first) return fmt::format("set engine.cache_megabytes={}", cache);
  if (tokens > 0) return fmt::format("set {}={}", settings.micro_batch_key, tokens);
  MemorySettings brain = settings;
  brain.compute_type = ComputeType::kBfloat16;
  if (fits(brain)) return "set model.compute_type=bfloat16";
  brain.micro_batch_tokens = std::min(settings.micro_batch_tokens, kLeastTokens);
  const int64_t rest = settings.engines > 0 ? most(brain, &MemorySettings::cache_megabytes, kLeastCache) : 0;
  if (rest > 0) {
    return fmt::format("set model.compute_type=bfloat16, {}={} and engine.cache_megabytes={}",
                       settings.micro_batch_key, brain.micro_batch_tokens, rest);
  }
  if (fits(brain)) {
    return fmt::format("set model.compute_type=bfloat16 and {}={}", settings.micro_batch_key,
                       brain.micro_batch_tokens);
  }
  if (!settings.recompute) return "";
  // What was fixed may be what does not fit.
  const std::string others = smaller_settings(model, open, budget);
  return others.empty() ? "" : "leave recompute at auto and " + others;
}

static std::string remedy(const ModelConfig& model, const MemorySettings& settings, double budget,
                          double available) {
  const std::string smaller = smaller_settings(model, settings, budget);
  if (!smaller.empty()) return smaller;
  const MemoryPlan plan = plan_memory(model, settings, budget);
  if (plan.total() <= available) {
    return fmt::format("set memory_megabytes={:.0f}",
                       std::ceil((plan.total() + model_bytes(model)) / (1 << 20)));
  }
  return "use a smaller model or a machine with more memory";
}

CheckedMemory check_memory(const ModelConfig& model, const MemorySettings& settings, double available) {
  const double limit = static_cast<double>(settings.limit_megabytes) * (1 << 20) - model_bytes(model);
  const bool limited = settings.limit_megabytes > 0 && limit < available;
  const double budget = limited ? std::max(0.0, limit) : available;
  const MemoryPlan plan = plan_memory(model, settings, budget);
  std::string recomputed = fmt::format("recompute {}", to_string(plan.recompute));
  if (plan.recompute != Recompute::kNone) {
    recomputed +=
        fmt::format("; {} with none", megabytes(plan_with(model, settings, Recompute::kNone).activations));
  }
  const std::string parts =
      fmt::format("weights {}, optimizer {}, KV cache up to {}, activations up to {} ({}); {} of {} {}",
                  megabytes(plan.weights), megabytes(plan.optimizer), megabytes(plan.cache),
                  megabytes(plan.activations), recomputed, megabytes(plan.total()), megabytes(budget),
                  limited ? "that memory_megabytes leaves beside the model" : "available");
  if (plan.total() <= budget) return {"Memory: " + parts, plan.recompute};
  throw input_error(fmt::format("The run needs more memory than {} ({}): {}.",
                                limited ? "it may take" : "the machine has left", parts,
                                remedy(model, settings, budget, available)));
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
  const MemorySettings settings{.compute_type = compute_type(config.model.compute_type),
                                .vocabulary_size = session.vocabulary_size(),
                                .threads = session.compute().threads(),
                                // Those of training, and that of evaluation.
                                .engines = 1 + config.engine.replicas - config.engine.child_processes,
                                .child_engines = config.engine.child_processes,
                                .cache_megabytes = config.engine.cache_megabytes,
                                .micro_batch_tokens = config.train.micro_batch_tokens,
                                .micro_batch_key = "train.micro_batch_tokens",
                                .recompute = recompute_setting(config.recompute),
                                .limit_megabytes = config.memory_megabytes};
  const CheckedMemory memory = check_memory(session.weights()->config(), settings, available_memory());
  check_settings(session, config);
  BeforeRun report = check_environment(session, config, interrupts);
  report.lines.insert(report.lines.begin(), memory.line);
  report.recompute = memory.recompute;
  return report;
}

}  // namespace stoker
