// What a turn costs beside the model: processor time of the whole process a turn, with a scripted engine and
// a calculator conversation of eight turns an episode, through the real executor, controller, orchestrator,
// renderer, tokenizer, parser and tool. 64, 1,024 and 10,000 episodes at once. What the trace of a turn costs
// is measured by itself.

#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "engine/scripted_engine.h"
#include "environment/calculator/calculator.h"
#include "observe/perfetto_writer.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "rollout/orchestrator.h"
#include "rollout/run_activity.h"
#include "support.h"
#include "text/chatml_renderer.h"
#include "text/tokenizer_builder.h"

namespace stoker {
namespace {

constexpr int32_t kTurns = 8;
constexpr int32_t kGroupSize = 8;

// Asks one question, has the calculator, and is done with the first answer.
class CalculatorEnvironment final : public Environment {
 public:
  Task<Result<Observation>> reset(const TaskRow& task, uint64_t) override {
    Message question;
    question.content = task.fields.at("prompt").as_string();
    co_return Observation{.messages = {std::move(question)}};
  }
  Task<Result<Observation>> step(const Action&) override { co_return Observation{.done = true}; }
  Task<> close() override { co_return; }
  std::vector<Tool*> tools() override { return {&calculator_}; }

 private:
  CalculatorTool calculator_;
};

class CalculatorTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    return {.id = fmt::format("{}", ordinal),
            .fields = Json::object({{"prompt", fmt::format("What is {}*48+12?", ordinal % 1000)}})};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

class OneReward final : public Reward {
 public:
  std::string name() const override { return "one"; }
  Task<Result<RewardResult>> score(const EpisodeView&) override {
    co_return RewardResult{.reward = 1, .success = true};
  }
};

class CalculatorKind final : public EnvironmentKind {
 public:
  std::unique_ptr<Environment> make(Pool&) const override {
    return std::make_unique<CalculatorEnvironment>();
  }
  std::unique_ptr<TaskSource> training_tasks(uint64_t) const override {
    return std::make_unique<CalculatorTasks>();
  }
  std::unique_ptr<TaskSource> evaluation_tasks() const override {
    return std::make_unique<CalculatorTasks>();
  }
  std::vector<std::unique_ptr<Reward>> rewards() const override {
    std::vector<std::unique_ptr<Reward>> rewards;
    rewards.push_back(std::make_unique<OneReward>());
    return rewards;
  }
};

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Measurement {
  int32_t concurrent = 0;
  int32_t batches = 0;
  int64_t turns = 0;       // out
  size_t event_bytes = 0;  // out
};

Task<> rollout(Measurement* measurement) {
  const TokenizerPtr tokenizer = Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "built");
  const ChatMlRenderer renderer(tokenizer, {.list_tools = false});
  const auto encode = [&](const char* text) { return tokenizer->encode_with_special(text); };
  const std::vector<int32_t> call = encode(
      "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": "
      "\"37*48+12\"}}\n</tool_call><|im_end|>");
  const std::vector<int32_t> answer = encode("The answer is 1788.<|im_end|>");
  // Long enough that all episodes are in flight together.
  const Duration latency = std::chrono::microseconds(5000 + 40 * measurement->concurrent);
  ScriptedEngine engine([&](const GenerateRequest& request) {
    return ScriptedAnswer{.tokens = request.stream.turn + 1 < kTurns ? call : answer, .latency = latency};
  });

  const CalculatorKind kind;
  const CalculatorTasks tasks;
  const std::unique_ptr<Agent> agent = make_tool_agent({});
  Pool blocking;
  EpisodeRunner runner({}, engine, kind, *agent, tokenizer, renderer, blocking, kind.rewards());
  Orchestrator::Options options;
  options.controller = {.total_steps = measurement->batches,
                        .groups_per_batch = measurement->concurrent / kGroupSize,
                        .group_size = kGroupSize,
                        .max_concurrent_episodes = measurement->concurrent,
                        .max_ahead = 1};
  options.event_log = [measurement](const Json& line) { measurement->event_bytes += line.dump().size(); };
  Orchestrator orchestrator(options, runner, tasks, engine);
  co_await orchestrator.start();
  int64_t version = 0;
  while (const std::optional<RolloutBatch> batch = co_await orchestrator.next_batch()) {
    for (const Group& group : batch->groups) {
      for (const EpisodeRecord& episode : group.episodes) {
        if (!episode.reward || episode.trajectory.turn_count() != kTurns) {
          throw internal_error("An episode of the benchmark did not go as written: " +
                               (episode.failure ? episode.failure->message : "it is too short"));
        }
        measurement->turns += kTurns;
      }
    }
    co_await orchestrator.step_finished(least_weights(++version));
  }
  co_await orchestrator.close();
}

double microseconds_a_turn(int32_t concurrent, int32_t batches) {
  Measurement measurement{.concurrent = concurrent, .batches = batches};
  const double before = process_cpu_seconds();
  RealExecutor executor;
  run(executor, rollout(&measurement));
  return (process_cpu_seconds() - before) * 1e6 / static_cast<double>(measurement.turns);
}

// The least of several runs: what else runs on the machine only ever adds.
double least_microseconds(int32_t concurrent, int32_t batches, int32_t runs) {
  double least = microseconds_a_turn(concurrent, batches);
  for (int32_t i = 1; i < runs; ++i) least = std::min(least, microseconds_a_turn(concurrent, batches));
  return least;
}

int64_t nanoseconds(const Executor& executor) { return executor.now().time_since_epoch().count(); }

// What an episode of many turns tells of itself, as EpisodePlay does, with the times that it asks for beside.
void trace_turns(const Executor& executor, EpisodeActivity& episode, int32_t turns) {
  for (int32_t turn = 0; turn < turns; ++turn) {
    episode.enter(TraceSpan::kQueue, turn, nanoseconds(executor));
    episode.enter(TraceSpan::kPrefill, turn, nanoseconds(executor));
    episode.enter(TraceSpan::kDecode, turn, nanoseconds(executor));
    const int64_t end = nanoseconds(executor);
    episode.leave(end);
    episode.expect(TraceSpan::kTool, turn, end);
    episode.enter(TraceSpan::kTool, turn, end);
  }
}

// Processor time of a turn's trace, file included.
double trace_microseconds_a_turn() {
  constexpr int32_t kEpisodes = 2000;
  std::string folder = (std::filesystem::temp_directory_path() / "stoker_trace_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw resource_error("The benchmark found no place for its trace.");
  double seconds = 0;
  {
    RealExecutor executor;
    PerfettoWriter writer(folder, {});
    RunActivity run(&writer);
    const double before = process_cpu_seconds();
    for (uint64_t i = 0; i < kEpisodes; ++i) {
      EpisodeActivity episode(executor, &run, {.task_ordinal = i}, false);
      trace_turns(executor, episode, kTurns);
    }
    writer.flush();
    seconds = process_cpu_seconds() - before;
  }
  std::filesystem::remove_all(folder);
  return seconds * 1e6 / (kEpisodes * kTurns);
}

void measure(FigureReport& report) {
  double trace = trace_microseconds_a_turn();
  for (int i = 0; i < 4; ++i) trace = std::min(trace, trace_microseconds_a_turn());
  report.add("trace_turn_microseconds", trace, "us");
  report.add("turn_microseconds_64", least_microseconds(64, 20, 5), "us");
  report.add("turn_microseconds_1024", least_microseconds(1024, 3, 15), "us");
  report.add("turn_microseconds_10000", least_microseconds(10'000, 2, 2), "us");
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) {
  const char* json = nullptr;
  if (argc == 3 && std::strcmp(argv[1], "--json") == 0) {
    json = argv[2];
  } else if (argc != 1) {
    fmt::print(stderr, "usage: orchestration_bench [--json FILE]\n");
    return 2;
  }
  try {
    stoker::FigureReport report;
    stoker::measure(report);
    if (json != nullptr) report.write(json);
  } catch (const std::exception& error) {
    fmt::print(stderr, "orchestration_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
