#include "cli/env_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "async/cancellation.h"
#include "async/pool.h"
#include "async/quarantine.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "base/metrics.h"
#include "base/random.h"
#include "rollout/deadline.h"
#include "rollout/episode_world.h"
#include "text/json_schema.h"
#include "trajectory/failure_rules.h"

namespace stoker {
namespace {

constexpr double kSlowShare = 0.5;  // of a deadline: a call that takes more is told

// What one episode looked like from outside; equal for equal seeds, if the environment is deterministic.
struct Transcript {
  std::vector<Message> messages;
  std::optional<Failure> failure;
  std::map<std::string, double> rewards;
  std::optional<double> reward;

  bool operator==(const Transcript&) const = default;
};

// Seconds of calls, by what was called.
class Latencies {
 public:
  void add(const std::string& what, double seconds) { seconds_[what].push_back(seconds); }

  void report(EnvironmentReport& report) const {
    for (auto [what, seconds] : seconds_) {
      std::sort(seconds.begin(), seconds.end());
      const double median = seconds[seconds.size() / 2], worst = seconds.back();
      report.figures.push_back({fmt::format("{}_median", what), median * 1e3, "ms", {}, {}});
      report.figures.push_back({fmt::format("{}_max", what), worst * 1e3, "ms", {}, {}});
    }
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

// Plays episodes with a random policy.
class RandomPlay {
 public:
  RandomPlay(const RunConfig& config, Executor& executor, EnvironmentKind& kind, Pool& blocking,
             EnvironmentReport& report)
      : config_(config),
        executor_(executor),
        kind_(kind),
        report_(report),
        quarantine_(executor),
        settings_{.limits = config.rollout.limits.limits},
        parts_{settings_, quarantine_, blocking} {}

  Task<> run(int episodes) {
    rewards_ = kind_.rewards();
    if (rewards_.empty()) {
      problem("There is no reward; name one with reward.command, or choose one of the environment's.");
    }
    const std::unique_ptr<TaskSource> tasks = kind_.training_tasks(static_cast<uint64_t>(config_.seed));
    for (int i = 0; i < episodes; ++i) {
      const TaskRow task = tasks->task(static_cast<uint64_t>(i));
      const Transcript first = co_await episode(task, static_cast<uint64_t>(i));
      const Transcript again = co_await episode(task, static_cast<uint64_t>(i));
      compare(task, first, again);
      look_at(task, first);
    }
    try {
      kind_.evaluation_tasks()->task(0);
    } catch (const Error& error) {
      report_.facts.push_back(fmt::format("no evaluation: {}", error.what()));
    }
    co_await shielded(quarantine_.shut_down(std::chrono::seconds(1)));
    for (std::string& sentence : co_await kind_.check_at_rest()) problem(std::move(sentence));
    sum_up();
  }

 private:
  void problem(std::string sentence) {
    std::vector<std::string>& known = report_.problems;
    if (std::find(known.begin(), known.end(), sentence) == known.end()) known.push_back(std::move(sentence));
  }

  Task<Transcript> episode(TaskRow task, uint64_t ordinal) {
    auto data = std::make_shared<EpisodeData>();
    data->task = std::move(task);
    EpisodeWorld world(kind_, parts_, data);
    RandomStream random(StreamKey{.run_seed = static_cast<uint64_t>(config_.seed),
                                  .purpose = RandomPurpose::kData,
                                  .task_ordinal = ordinal});
    data->record.failure = co_await turns(world, *data, random, ordinal);
    if (is_scored_ending(data->record.failure)) co_await world.score();
    const TimePoint before = executor_.now();
    if (!co_await world.close()) {
      problem(fmt::format("close did not end within close_timeout_seconds = {}; bound what it waits for.",
                          settings_.limits.close_timeout_seconds));
    }
    latencies_.add("close", to_seconds(executor_.now() - before));
    Transcript transcript{.messages = data->messages, .failure = data->record.failure};
    if (is_scored_ending(data->record.failure) && !rewards_.empty()) {
      const TimePoint scoring = executor_.now();
      std::vector<double> weights = config_.rollout.reward_weights;
      if (weights.empty()) weights = kind_.reward_weights();
      weights.resize(rewards_.size(), 1.0);
      co_await score_episode(data, rewards_, weights, parts_);
      latencies_.add("score", to_seconds(executor_.now() - scoring));
      transcript.rewards = data->record.rewards;
      transcript.reward = data->record.reward;
      transcript.failure = data->record.failure;
    }
    co_return transcript;
  }

  Task<std::optional<Failure>> turns(EpisodeWorld& world, EpisodeData& data, RandomStream& random,
                                     uint64_t seed) {
    if (std::optional<Failure> failure = co_await world.open()) co_return failure;
    const TimePoint before = executor_.now();
    const Result<Observation> first = co_await world.reset(seed);
    measure("reset", before, settings_.limits.reset_timeout_seconds);
    if (!first) co_return first.failure();
    data.messages = first->messages;
    data.prompt_messages = first->messages.size();
    if (first->done) co_return std::nullopt;
    for (int32_t turn = 0; turn < settings_.limits.max_turns; ++turn) {
      if (!world.tools().empty() && config_.agent.kind == "tool" && random.below(2) == 0) {
        if (std::optional<Failure> failure = co_await call(world, data, random, turn)) co_return failure;
        continue;
      }
      const std::string said = text(random);
      data.messages.push_back({.role = Role::kAssistant, .content = said});
      const TimePoint stepping = executor_.now();
      const Result<Observation> next = co_await world.step({.turn = turn, .text = said, .content = said});
      measure("step", stepping, settings_.limits.step_timeout_seconds);
      if (!next) co_return next.failure();
      data.messages.insert(data.messages.end(), next->messages.begin(), next->messages.end());
      if (next->done) co_return std::nullopt;
    }
    co_return Failure{FailureClass::kLimit, "turns", "The turns were used up."};
  }

  Task<std::optional<Failure>> call(EpisodeWorld& world, EpisodeData& data, RandomStream& random,
                                    int32_t turn) {
    const std::shared_ptr<Tool> tool = world.tools()[random.below(world.tools().size())];
    const ToolSchema schema = tool->schema();
    Json arguments = random_value(schema.parameters, random);
    const JsonSchema checked(schema.parameters, fmt::format("tool '{}'", schema.name));
    if (const std::optional<std::string> wrong = checked.validate(arguments)) {
      report_.facts.push_back(fmt::format("tool '{}' was not called: no arguments that fit were found ({})",
                                          schema.name, *wrong));
      co_return std::nullopt;
    }
    Message message{.role = Role::kAssistant};
    message.tool_calls.push_back(
        {.id = fmt::format("call_{}", turn), .name = schema.name, .arguments = arguments});
    data.messages.push_back(std::move(message));
    const OutsideCall about{.failure_class = FailureClass::kTool,
                            .task = "tool",
                            .subject = "The tool",
                            .name = schema.name,
                            .limit_seconds = config_.agent.tool_timeout_seconds};
    const TimePoint before = executor_.now();
    const Result<ToolResult> result =
        co_await call_outside(quarantine_, about, call_tool(tool, std::move(arguments)));
    measure("call", before, config_.agent.tool_timeout_seconds);
    if (!result) co_return result.failure();
    ++tool_calls_;
    tool_errors_ += result->is_error;
    data.messages.push_back({.role = Role::kTool, .content = result->content, .name = schema.name});
    co_return std::nullopt;
  }

  static Task<Result<ToolResult>> call_tool(std::shared_ptr<Tool> tool, Json arguments) {
    co_return co_await tool->call(arguments);
  }

  static std::string text(RandomStream& random) {
    constexpr const char* kTexts[] = {"",
                                      "42",
                                      "yes",
                                      "left",
                                      "The answer is 7.",
                                      "#### 18",
                                      "I do not know.",
                                      "{\"broken\": ",
                                      "\xE2\x88\x92 3\n\n\t...",
                                      "help"};
    return kTexts[random.below(std::size(kTexts))];
  }

  void measure(const char* what, TimePoint before, double limit_seconds) {
    const double seconds = to_seconds(executor_.now() - before);
    latencies_.add(what, seconds);
    if (seconds > kSlowShare * limit_seconds) {
      problem(fmt::format("{} took {:.3g} s of its {:.3g} s; make it faster, or raise the limit.", what,
                          seconds, limit_seconds));
    }
  }

  void compare(const TaskRow& task, const Transcript& first, const Transcript& again) {
    if (first == again) return;
    std::string what = first.messages != again.messages ? "messages"
                       : first.rewards != again.rewards ? "rewards"
                                                        : "endings";
    problem(fmt::format(
        "Two episodes of one task and seed had different {} (task {}); draw random numbers from the seed "
        "that "
        "reset is given, and nothing from the clock or from other episodes: members of a group must face the "
        "same task, and resumed episodes are played again.",
        what, task.id));
  }

  void look_at(const TaskRow& task, const Transcript& transcript) {
    ++episodes_;
    if (transcript.failure) {
      ++endings_[transcript.failure->name()];
      if (is_worlds_fault(*transcript.failure)) {
        problem(fmt::format("An episode failed as {}: {} In training it would be {}.",
                            transcript.failure->name(), transcript.failure->message,
                            failure_policy(config_.rollout.failures).retries(transcript.failure->name())
                                ? "tried again, then left out"
                                : "left out"));
      }
    } else {
      ++endings_["done"];
    }
    if (transcript.reward) scores_.add(*transcript.reward);
    if (!transcript.messages.empty() && episodes_ == 1) {
      report_.facts.push_back(fmt::format("first prompt of task {}: {}", task.id,
                                          Json(transcript.messages[0].content.substr(0, 400)).dump()));
    }
  }

  void sum_up() {
    std::string endings;
    for (const auto& [name, count] : endings_)
      endings += fmt::format("{}{} {}", endings.empty() ? "" : ", ", count, name);
    report_.facts.push_back(fmt::format("{} tasks, each played twice: {}", episodes_, endings));
    if (tool_calls_ > 0) {
      report_.facts.push_back(
          fmt::format("{} tool calls, {} of them with an error for the model", tool_calls_, tool_errors_));
    }
    if (scores_.count() > 0) {
      report_.facts.push_back(fmt::format("rewards from {:g} to {:g}, mean {:g}", *scores_.minimum(),
                                          *scores_.maximum(), *scores_.mean()));
    }
    latencies_.report(report_);
  }

  const RunConfig& config_;
  Executor& executor_;
  EnvironmentKind& kind_;
  EnvironmentReport& report_;
  Quarantine quarantine_;
  EpisodeSettings settings_;
  WorldParts parts_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  Latencies latencies_;
  Summary scores_;
  std::map<std::string, int> endings_;
  int episodes_ = 0;
  int tool_calls_ = 0;
  int tool_errors_ = 0;
};

Task<> open_and_play(RandomPlay* play, EnvironmentKind* kind, int episodes) {
  co_await kind->open();
  co_await play->run(episodes);
}

}  // namespace

EnvironmentReport check_environment_of(const RunConfig& config, int episodes, InterruptWatch& interrupts) {
  EnvironmentReport report;
  RealExecutor executor;
  Pool blocking({.threads = 16, .name = "world", .abandon_after = std::chrono::seconds(2)});
  const std::unique_ptr<EnvironmentKind> kind =
      with_outside(make_environment_kind(config.environment), config.tools, config.reward);
  CancellationSource stop;
  auto delivery = interrupts.deliver_to(executor, [&stop] { stop.request(CancelReason::kShutdown); });
  RandomPlay play(config, executor, *kind, blocking, report);
  run(executor, open_and_play(&play, kind.get(), episodes), stop.token(), "check");
  return report;
}

std::string EnvironmentReport::text() const {
  std::string text;
  for (const std::string& fact : facts) text += fact + "\n";
  for (const std::string& problem : problems) text += "PROBLEM: " + problem + "\n";
  text += problems.empty() ? "Nothing stands in the way of training.\n"
                           : fmt::format("{} {} to mend before training.\n", problems.size(),
                                         problems.size() == 1 ? "thing" : "things");
  return text;
}

Json random_value(const Json& schema, RandomStream& random, int depth) {
  constexpr int kMaxDepth = 8;
  if (const Json* fixed = schema.find("const")) return *fixed;
  if (const Json* choices = schema.find("enum"); choices != nullptr && !choices->as_array().empty()) {
    return choices->as_array()[random.below(choices->as_array().size())];
  }
  for (const char* one_of : {"anyOf", "oneOf"}) {
    if (const Json* choices = schema.find(one_of); choices != nullptr && depth < kMaxDepth) {
      const Json::Array& options = choices->as_array();
      if (!options.empty()) return random_value(options[random.below(options.size())], random, depth + 1);
    }
  }
  const Json* type = schema.find("type");
  if (type != nullptr && type->is_array() && !type->as_array().empty()) type = &type->as_array()[0];
  const std::string name = type != nullptr && type->is_string() ? type->as_string()
                           : schema.find("properties")          ? "object"
                                                                : "string";
  const Json* minimum = schema.find("minimum");
  const double least = minimum != nullptr && minimum->is_number() ? minimum->as_double() : 0;
  if (name == "integer") return static_cast<long long>(least) + static_cast<long long>(random.below(10));
  if (name == "number") return least + static_cast<double>(random.below(100)) / 10;
  if (name == "boolean") return random.below(2) == 0;
  if (name == "null") return Json();
  if (name == "string") {
    constexpr const char* kTexts[] = {"a", "1+1", "42", "Paris", "-- ' \" \\ \n", "é日本"};
    return kTexts[random.below(std::size(kTexts))];
  }
  if (name == "array") {
    Json array = Json::array();
    const Json* items = schema.find("items");
    const Json* fewest = schema.find("minItems");
    const uint64_t count = fewest != nullptr && fewest->is_integer() ? fewest->as_uint() : random.below(3);
    for (uint64_t i = 0; i < std::min<uint64_t>(count, 16) && depth < kMaxDepth; ++i) {
      array.as_array().push_back(random_value(items != nullptr ? *items : Json::object(), random, depth + 1));
    }
    return array;
  }
  Json object = Json::object();
  const Json* properties = schema.find("properties");
  if (properties == nullptr || !properties->is_object() || depth >= kMaxDepth) return object;
  const Json* required = schema.find("required");
  for (const auto& [member, property] : properties->as_object()) {
    bool needed = false;
    if (required != nullptr && required->is_array()) {
      for (const Json& one : required->as_array()) needed = needed || one == Json(member);
    }
    if (needed || random.below(2) == 0) object.set(member, random_value(property, random, depth + 1));
  }
  return object;
}

}  // namespace stoker
