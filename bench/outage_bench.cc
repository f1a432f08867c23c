// 10,000 episodes of outside processes that go wrong all the time: a tenth of the episodes crash their
// process, a tenth hang it and a tenth have it write garbage, each at its first attempt, and a few at every
// attempt, through the real executor, controller, orchestrator and processes. Measured against a run in which
// nothing goes wrong: whether an episode is lost, whether the learner is given other numbers than the healthy
// episodes earned, what is left of processes and file descriptors, and by how much the memory grows.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "async/pool.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/scripted_engine.h"
#include "environment/command/command_kind.h"
#include "rollout/agent.h"
#include "rollout/episode.h"
#include "rollout/orchestrator.h"
#include "support.h"
#include "text/chatml_renderer.h"
#include "text/tokenizer_builder.h"
#include "train/batch_builder.h"

namespace stoker {
namespace {

constexpr int32_t kGroupSize = 8;
constexpr int32_t kGroups = 125;  // of a step
constexpr int32_t kSteps = 10;
constexpr int32_t kEpisodes = kSteps * kGroups * kGroupSize;
constexpr int32_t kProcesses = 16;
constexpr int32_t kEpisodesAProcess = 6;
constexpr int32_t kAtOnce = 64;
constexpr int32_t kAttempts = 3;

uint64_t number_of(uint64_t ordinal, uint32_t sample) { return ordinal * kGroupSize + sample; }

// How the processes of an episode go wrong at first; "": they do not.
const char* planted(uint64_t number) {
  constexpr const char* kWays[] = {"", "", "crash", "", "", "hang", "", "", "garbage", ""};
  return kWays[number % 10];
}
// Of those, the ones that go wrong at every attempt: three in five thousand.
bool wrong_for_good(uint64_t number) { return *planted(number) != '\0' && number % 5000 < 10; }

double resident_megabytes() {
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

// Processes that run the child program, whoever started them: what is left over may have lost its parent.
int running_children() {
  const std::filesystem::path program = std::filesystem::canonical(STOKER_OUTSIDE_CHILD);
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path() / "exe", gone) == program;
  }
  return count;
}

class ToldTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    return {fmt::format("{}", ordinal), Json::object({{"do", "told"}})};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

// What the learner was given at one step.
struct StepInput {
  uint64_t digest = 0;  // of tokens, advantages, weights and log-probabilities
  BatchCounts counts;
};

struct RunResult {
  std::vector<StepInput> steps;
  int64_t ended = 0;           // episodes that were given to the learner with a reward or a failure
  int64_t lost_attempts = 0;   // that ended with their process
  int64_t other_failures = 0;  // attempts that ended otherwise
  double early_megabytes = 0;  // after the second step
  double late_megabytes = 0;   // after the last
};

template <typename T>
void add(Hasher64& hasher, const std::vector<T>& values) {
  hasher.add(values.data(), values.size() * sizeof(T));
}

StepInput step_input(const RolloutBatch& rollout) {
  const TrainingBatch training = build_training_batch(rollout, {});
  Hasher64 hasher;
  for (const MicroBatch& micro : training.micro_batches) {
    for (const Segment& segment : micro.batch.segments) {
      add(hasher, segment.tokens);
      hasher.add(&segment.parent, sizeof segment.parent);
    }
    add(hasher, micro.batch.segment);
    add(hasher, micro.batch.offset);
    add(hasher, micro.batch.target);
    add(hasher, micro.behaviour_log_probability);
    add(hasher, micro.advantage);
    add(hasher, micro.weight);
  }
  return {hasher.digest(), training.counts};
}

// Takes out of a run in which nothing goes wrong the episodes that go wrong for good.
void fail_planted(RolloutBatch& batch) {
  for (Group& group : batch.groups) {
    for (EpisodeRecord& episode : group.episodes) {
      if (!wrong_for_good(number_of(episode.id.task_ordinal, episode.id.sample))) continue;
      episode.failure = Failure{FailureClass::kInfrastructure, "process_ended", ""};
      episode.reward.reset();
      episode.rewards.clear();
      episode.success = false;
    }
  }
}

Orchestrator::Options orchestrator_options(RunResult* result) {
  Orchestrator::Options options;
  options.controller = {.total_steps = kSteps,
                        .groups_per_batch = kGroups,
                        .group_size = kGroupSize,
                        .max_concurrent_episodes = kAtOnce,
                        .max_ahead = 1,
                        .batch_order = BatchOrder::kStrict,
                        .max_attempts = kAttempts};
  options.episode_finished = [result](const EpisodeRecord& record) {
    if (!record.failure) return;
    const bool process = record.failure->name() == "infrastructure.process_ended";
    ++(process ? result->lost_attempts : result->other_failures);
  };
  return options;
}

// The policy of this run: what it says decides what the episode's process does, or is the episode's reward.
ScriptedEngine::Script script(const TokenizerPtr& tokenizer, bool faults) {
  return [tokenizer, faults](const GenerateRequest& request) {
    const uint64_t number = number_of(request.stream.task_ordinal, request.stream.sample);
    std::string said = fmt::format("{}", number * 7 % 11);
    const bool wrong = request.stream.attempt == 0 || wrong_for_good(number);
    if (faults && wrong && *planted(number) != '\0') said = planted(number);
    return ScriptedAnswer{.tokens = tokenizer->encode_with_special(said + "<|im_end|>")};
  };
}

Task<> rollout(const EnvironmentKind* kind, Pool* blocking, bool faults, RunResult* result) {
  const TokenizerPtr tokenizer = Tokenizer::from_json(build_tokenizer_json(builder_default_words()), "built");
  const ChatMlRenderer renderer(tokenizer, {.list_tools = false});
  ScriptedEngine engine(script(tokenizer, faults));
  const std::unique_ptr<Agent> agent = make_conversation_agent();
  std::vector<std::unique_ptr<Reward>> rewards = kind->rewards();
  rewards.resize(1);  // the environment's own score
  EpisodeRunner runner({}, engine, *kind, *agent, tokenizer, renderer, *blocking, std::move(rewards));
  const ToldTasks tasks;
  Orchestrator orchestrator(orchestrator_options(result), runner, tasks, engine);
  co_await orchestrator.start();
  int64_t version = 0;
  while (std::optional<RolloutBatch> batch = co_await orchestrator.next_batch()) {
    for (const Group& group : batch->groups) {
      for (const EpisodeRecord& episode : group.episodes) result->ended += episode.reward || episode.failure;
    }
    if (!faults) fail_planted(*batch);
    result->steps.push_back(step_input(*batch));
    co_await orchestrator.step_finished(least_weights(++version));
    result->late_megabytes = resident_megabytes();
    if (version == 2) result->early_megabytes = result->late_megabytes;
  }
  co_await orchestrator.close();
}

RunResult play(bool faults) {
  CommandEnvironmentOptions options;
  options.process.command = {STOKER_OUTSIDE_CHILD};
  options.process.processes = kProcesses;
  options.process.episodes_per_process = kEpisodesAProcess;
  options.process.restarts = 1000;
  if (faults) {
    options.process.heartbeat_seconds = 0.05;
    options.process.heartbeat_timeout_seconds = 0.2;
  }
  RunResult result;
  RealExecutor executor;
  Pool blocking;
  const std::unique_ptr<EnvironmentKind> kind = make_command(options);
  run(executor, kind->open());
  run(executor, rollout(kind.get(), &blocking, faults, &result));
  return result;
}

int64_t steps_that_differ(const RunResult& run, const RunResult& expected) {
  int64_t different = kSteps - static_cast<int64_t>(std::min(run.steps.size(), expected.steps.size()));
  for (size_t i = 0; i < std::min(run.steps.size(), expected.steps.size()); ++i) {
    const StepInput &got = run.steps[i], &wanted = expected.steps[i];
    different += got.digest != wanted.digest || got.counts.reward_sum != wanted.counts.reward_sum ||
                 got.counts.trained_rows != wanted.counts.trained_rows ||
                 got.counts.failed_rows != wanted.counts.failed_rows;
  }
  return different;
}

void measure(FigureReport& report) {
  const int descriptors = open_descriptors(), children = running_children();
  set_log_level(LogLevel::kError);
  const RunResult expected = play(false);
  const RunResult outage = play(true);
  set_log_level(LogLevel::kInfo);
  int64_t planted_for_good = 0, failed_for_good = 0;
  for (uint64_t i = 0; i < kEpisodes; ++i) planted_for_good += wrong_for_good(i);
  for (const StepInput& step : outage.steps) {
    for (const auto& [name, rows] : step.counts.failed_rows) failed_for_good += rows;
  }
  report.add("outage_episodes", kEpisodes, "episodes");
  report.add("outage_episodes_lost", static_cast<double>(kEpisodes - outage.ended), "episodes");
  report.add("outage_attempts_lost", static_cast<double>(outage.lost_attempts), "attempts");
  report.add("outage_attempts_failed_otherwise", static_cast<double>(outage.other_failures), "attempts");
  report.add("outage_failed_beside_planted", static_cast<double>(failed_for_good - planted_for_good),
             "episodes");
  report.add("outage_steps_with_other_numbers", static_cast<double>(steps_that_differ(outage, expected)),
             "steps");
  report.add("outage_descriptors_left", open_descriptors() - descriptors, "descriptors");
  report.add("outage_processes_left", running_children() - children, "processes");
  report.add("outage_memory_growth", outage.late_megabytes - outage.early_megabytes, "MB");
}

}  // namespace
}  // namespace stoker

int main(int argc, char** argv) { return stoker::bench_main(argc, argv, "outage_bench", stoker::measure); }
