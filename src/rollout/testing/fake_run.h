#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "async/sleep.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "rollout/orchestrator.h"

namespace stoker::testing {

// Tasks "task 0", "task 1", ... without end; the one at `broken` throws.
class CountingTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    if (ordinal == broken) throw input_error(fmt::format("Row {} of tasks.jsonl is broken.", ordinal));
    return {.id = fmt::format("task {}", ordinal)};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }

  uint64_t broken = UINT64_MAX;
};

// Plays episodes that only take time: each samples one token, and may fail, hang or throw by its id.
class FakePlayer final : public EpisodePlayer {
 public:
  FakePlayer(Engine& engine, uint64_t seed) : engine_(engine), seed_(seed) {}

  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::shared_ptr<const Trajectory>) override {
    ++open_;
    most_open_ = std::max(most_open_, open_);
    Open guard(open_);
    EpisodeRecord record{.id = id, .task_id = task.id};
    const int32_t prompt[] = {1};
    record.trajectory.append(SpanKind::kPrompt, 0, prompt);
    record.trajectory.begin_sampled(0);
    record.trajectory.append_sampled(2, -1.0f, engine_.version());
    record.trajectory.close_sampled(StopReason::kStopToken);
    RandomStream random(
        {.run_seed = seed_, .task_ordinal = id.task_ordinal, .sample = id.sample, .attempt = id.attempt});
    co_await sleep_for(std::chrono::milliseconds(1 + random.below(1000)));
    if (id.task_ordinal == throws_at) throw internal_error("A promise was broken.");
    if (id.task_ordinal == hangs_at) co_await sleep_for(std::chrono::seconds(1'000'000));
    if (random.uniform() < failure_share || id.task_ordinal == fails_at) {
      record.failure = Failure{FailureClass::kEnvironment, "planted", "planted"};
    } else {
      record.reward = random.uniform();
    }
    co_return record;
  }

  int32_t open() const { return open_; }
  int32_t most_open() const { return most_open_; }

  double failure_share = 0;
  uint64_t throws_at = UINT64_MAX;
  uint64_t fails_at = UINT64_MAX;
  uint64_t hangs_at = UINT64_MAX;

 private:
  struct Open {
    explicit Open(int32_t& count) : count(count) {}
    ~Open() { --count; }
    int32_t& count;
  };

  Engine& engine_;
  uint64_t seed_;
  int32_t open_ = 0;
  int32_t most_open_ = 0;
};

// Weights of a tiny model under that version number.
WeightsPtr weights_of_version(int64_t version);

// What a whole run gave.
struct RunResult {
  std::vector<std::vector<uint64_t>> batches;
  std::vector<EpisodeRecord> episodes;  // of the batches
  std::vector<Json> log;
  int64_t trained = 0;
};

struct RunSetup {
  Orchestrator::Options options;
  double failure_share = 0;
  uint64_t fails_at = UINT64_MAX;
  Duration step_time = std::chrono::milliseconds(300);
  Duration publish_time = std::chrono::milliseconds(50);
  uint64_t seed = 1;
  int32_t most_open = 0;  // out
};

// A learner that only takes time, until the orchestrator has no batch more. All must outlive the task.
Task<> learner(Orchestrator* orchestrator, RunSetup* setup, RunResult* run);

// A run from start to close, with a FakePlayer; all must outlive the task.
Task<> whole_run(RunSetup* setup, RunResult* run);

// The same on a virtual clock, under one schedule.
RunResult run_simulated_once(uint64_t schedule, RunSetup& setup);

// Six steps of three groups of two.
ControllerOptions small_options(int32_t max_ahead);

}  // namespace stoker::testing
