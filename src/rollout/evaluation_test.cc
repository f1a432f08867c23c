#include "rollout/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"
#include "async/timeout.h"

namespace stoker {
namespace {

class NumberedTasks final : public TaskSource {
 public:
  TaskRow task(uint64_t ordinal) const override {
    return {.id = std::to_string(ordinal), .fields = Json::object()};
  }
  std::optional<uint64_t> epoch_size() const override { return std::nullopt; }
};

// Task t succeeds in its first t samples; samples of task 3 are never scored.
class CountingPlayer final : public EpisodePlayer {
 public:
  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::shared_ptr<const Trajectory>) override {
    highest_ = std::max(highest_, ++running_);
    co_await sleep_for(std::chrono::milliseconds(1 + id.sample));
    --running_;
    EpisodeRecord record;
    record.id = id;
    record.task_id = task.id;
    if (id.task_ordinal == 3) {
      record.failure = Failure{FailureClass::kEnvironment, "timeout", "reset took too long"};
      co_return record;
    }
    record.success = id.sample < id.task_ordinal;
    record.reward = record.success ? 1.0 : 0.0;
    co_return record;
  }
  int highest() const { return highest_; }

 private:
  int running_ = 0;
  int highest_ = 0;
};

double choose(int n, int k) {
  double value = 1;
  for (int i = 0; i < k; ++i) value = value * (n - i) / (i + 1);
  return k > n ? 0 : value;
}

TEST(PassAtK, EqualsTheRatioOfBinomials) {
  for (int n = 1; n <= 12; ++n) {
    for (int c = 0; c <= n; ++c) {
      for (int k = 1; k <= n; ++k) {
        EXPECT_NEAR(pass_at_k(n, c, k), 1.0 - choose(n - c, k) / choose(n, k), 1e-12)
            << n << " " << c << " " << k;
      }
    }
  }
}

TEST(Evaluation, CountsSuccessPassAtKAndFailuresWithinTheLimit) {
  SimulatedExecutor executor(7);
  CountingPlayer player;
  NumberedTasks tasks;
  std::vector<std::string> order;
  EvaluationOptions options{.tasks = 4, .samples = 4, .max_concurrent_episodes = 5};
  options.episode_finished = [&](const EpisodeRecord& record) {
    EXPECT_EQ(record.purpose, "evaluate");
    order.push_back(record.id.to_string());
  };
  EvaluationResult result = run(executor, evaluate(options, player, tasks));

  EXPECT_EQ(result.episodes, 16);
  EXPECT_EQ(result.scored, 12);
  EXPECT_DOUBLE_EQ(result.success_rate, 3.0 / 16);  // not scored is no success
  EXPECT_DOUBLE_EQ(*result.mean_reward, 3.0 / 12);
  EXPECT_EQ(result.failures.at("environment.timeout"), 4);
  EXPECT_EQ(player.highest(), 5);
  EXPECT_NEAR(result.pass_at.at(1), (0.0 + 0.25 + 0.5 + 0.0) / 4, 1e-12);
  EXPECT_NEAR(result.pass_at.at(4), (0.0 + 1.0 + 1.0 + 0.0) / 4, 1e-12);
  ASSERT_EQ(order.size(), 16u);
  EXPECT_TRUE(order.front() == "0.0" && order.back() == "3.3");
}

// The first episode takes as long as many others; counts the records that exist.
class SlowFirstPlayer final : public EpisodePlayer {
 public:
  Task<EpisodeRecord> run(EpisodeId id, TaskRow, std::shared_ptr<const Trajectory>) override {
    started = std::max(started, static_cast<int64_t>(id.task_ordinal) + 1);
    ahead = std::max(ahead, started - handed);
    co_await sleep_for(id.task_ordinal == 0 ? std::chrono::milliseconds(5000)
                                            : std::chrono::milliseconds(10));
    co_return EpisodeRecord{.id = id, .reward = 1.0, .success = true};
  }
  int64_t started = 0;
  int64_t handed = 0;
  int64_t ahead = 0;
};

TEST(Evaluation, HandsOverInOrderAndHoldsNoMoreThanItsWindow) {
  SimulatedExecutor executor(3);
  SlowFirstPlayer player;
  NumberedTasks tasks;
  EvaluationOptions options{.tasks = 1000, .max_concurrent_episodes = 5};
  options.episode_finished = [&](const EpisodeRecord& record) {
    EXPECT_EQ(record.id.task_ordinal, static_cast<uint64_t>(player.handed));
    ++player.handed;
  };
  const EvaluationResult result = run(executor, evaluate(options, player, tasks));
  EXPECT_EQ(result.episodes, 1000);
  EXPECT_EQ(player.handed, 1000);
  EXPECT_EQ(player.ahead, 20);
}

Task<> interrupted_evaluation(const EvaluationOptions* options, SlowFirstPlayer* player) {
  const NumberedTasks tasks;
  EXPECT_FALSE(co_await with_timeout(std::chrono::milliseconds(1000), evaluate(*options, *player, tasks)));
}

TEST(Evaluation, AnInterruptedOneHasHandedOverWhatHadEnded) {
  SimulatedExecutor executor(3);
  SlowFirstPlayer player;
  EvaluationOptions options{.tasks = 1000, .max_concurrent_episodes = 5};
  std::vector<uint64_t> handed;
  options.episode_finished = [&](const EpisodeRecord& record) { handed.push_back(record.id.task_ordinal); };
  run(executor, interrupted_evaluation(&options, &player));
  ASSERT_EQ(handed.size(), 19u);  // the window less the first
  for (size_t i = 0; i < handed.size(); ++i) EXPECT_EQ(handed[i], i + 1);
}

}  // namespace
}  // namespace stoker
