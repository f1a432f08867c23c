#include "rollout/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/sleep.h"

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
  Task<EpisodeRecord> run(EpisodeId id, TaskRow task, std::optional<Trajectory>) override {
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

}  // namespace
}  // namespace stoker
