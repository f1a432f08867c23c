#include "train/checkpoint.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"
#include "model/model_directory.h"
#include "train/testing/table_learner.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::table_weights;
using testing::TableLearner;

class CheckpointTest : public ::testing::Test {
 protected:
  static Weights weights_at(int64_t version) {
    Weights weights = table_weights(11, 100 + version);
    weights.set_version(version);
    return weights;
  }
  static TrainState state_at(int64_t step) {
    return {.phase = "train",
            .step = step,
            .version = step,
            .next_ordinal = 32 * static_cast<uint64_t>(step),
            .run_digest = "abc"};
  }
  static Checkpoint save(CheckpointStore& store, int64_t step) {
    Weights weights = weights_at(step);
    TableLearner learner(weights);
    return store.save(state_at(step), weights, learner);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_))
      result.push_back(entry.path().filename().string());
    std::ranges::sort(result);
    return result;
  }

  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

TEST_F(CheckpointTest, StateReadsBackToTheSameValues) {
  TrainState state{.phase = "sft",
                   .step = 41,
                   .version = 39,
                   .skipped_steps = 2,
                   .next_ordinal = (uint64_t{1} << 63) + 5,
                   .open_ordinals = {3, 17},
                   .unfinished_evaluations = {2, 4},
                   .recent_losses = {0.1, 1.0 / 3.0, 1e-300},
                   .counters = {{"episodes", 12}, {"num_tokens", 0.1 + 0.2}},
                   .run_digest = "d41d8c"};
  EXPECT_EQ(TrainState::from_json(Json::parse(state.to_json().dump())), state);
}

TEST_F(CheckpointTest, SavesWhatResumingNeeds) {
  CheckpointStore store(folder_, 2);
  EXPECT_FALSE(store.newest().has_value());
  save(store, 3);
  std::optional<Checkpoint> checkpoint = store.newest();
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->state, state_at(3));
  Weights loaded = load_model_weights(checkpoint->model_folder());
  EXPECT_TRUE(std::ranges::equal(loaded.values(), weights_at(3).values()));
  TableLearner learner(table_weights(11, 1));
  learner.restore(loaded, checkpoint->optimizer_folder());
  EXPECT_EQ(learner.version(), 3);
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "step_3");
}

TEST_F(CheckpointTest, KeepsTheLastAndTheBest) {
  CheckpointStore store(folder_, 2);
  for (int64_t step : {1, 2, 3, 10}) {
    save(store, step);
    if (step == 2) store.save_best(weights_at(2), 2, 0.75, {{"success", 0.75}});
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"best", "best_step_2", "latest", "step_10", "step_3"}));
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "step_10");
  std::optional<BestModel> best = store.best();
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->step, 2);
  EXPECT_EQ(best->score, 0.75);
  EXPECT_TRUE(
      std::ranges::equal(load_model_weights(folder_ / "best" / "model").values(), weights_at(2).values()));
  store.save_best(weights_at(3), 3, 0.8, {});
  EXPECT_EQ(store.best()->step, 3);
  EXPECT_EQ(names(), (std::vector<std::string>{"best", "best_step_3", "latest", "step_10", "step_3"}));
}

TEST_F(CheckpointTest, CKP_05_OnlyMarkedCheckpointsCount) {
  CheckpointStore store(folder_, 5);
  save(store, 10);
  save(store, 20);
  fs::remove(folder_ / "step_20" / "complete");
  fs::remove(folder_ / "step_20" / "state.json");
  save(store, 15);
  EXPECT_EQ(store.newest()->state.step, 15);
}

TEST_F(CheckpointTest, DamagedCheckpointsArePassedOver) {
  CheckpointStore store(folder_, 5);
  save(store, 1);
  save(store, 2);
  fs::path weights = folder_ / "step_2" / "model" / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 4);
  EXPECT_EQ(store.newest()->state.step, 1);
  save(store, 3);
  fs::remove(folder_ / "step_3" / "optimizer" / "momentum.bin");
  EXPECT_EQ(store.newest()->state.step, 1);
  save(store, 4);
  std::ofstream(folder_ / "step_4" / "complete") << "{";
  EXPECT_EQ(store.newest()->state.step, 1);
  // Other names are not checkpoints.
  for (const char* name : {"step_", "step_9x", "step_-7", ".step_8.1.tmp", "steps"})
    fs::create_directory(folder_ / name);
  EXPECT_EQ(store.newest()->state.step, 1);
}

TEST_F(CheckpointTest, LeftoversOfACrashAreClearedByTheNextSave) {
  CheckpointStore store(folder_, 2);
  fs::create_directory(folder_ / ".step_8.4711.tmp");
  fs::create_directory(folder_ / "step_5");
  save(store, 9);
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "step_9"}));
}

TEST_F(CheckpointTest, CKP_03_KilledWhileSaving) {
  save(*std::make_unique<CheckpointStore>(folder_, 2), 1);
  for (int round = 0; round < 20; ++round) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CheckpointStore store(folder_, 2);
      for (int64_t step = 2;; ++step) save(store, step % 50 + 2);
    }
    ::usleep(3000 + 1700 * round);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CheckpointStore store(folder_, 2);
    std::optional<Checkpoint> checkpoint = store.newest();
    ASSERT_TRUE(checkpoint.has_value()) << "round " << round;
    int64_t step = checkpoint->state.step;
    EXPECT_EQ(checkpoint->state, state_at(step));
    EXPECT_TRUE(std::ranges::equal(load_model_weights(checkpoint->model_folder()).values(),
                                   weights_at(step).values()));
    TableLearner learner(table_weights(11, 1));
    learner.restore(weights_at(step), checkpoint->optimizer_folder());
    EXPECT_EQ(learner.version(), step);
  }
}

TEST_F(CheckpointTest, FullDiskLeavesTheOldOneIntact) {
  CheckpointStore store(folder_, 1);
  save(store, 1);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 700;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string sentence;
  try {
    save(store, 2);
  } catch (const Error& error) {
    sentence = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_NE(sentence.find("model.safetensors"), std::string::npos) << sentence;
  EXPECT_EQ(store.newest()->state, state_at(1));
  EXPECT_EQ(names(), (std::vector<std::string>{"latest", "step_1"}));
}

TEST_F(CheckpointTest, WeightsOfAnotherVersionAreRefused) {
  CheckpointStore store(folder_, 1);
  Weights weights = weights_at(4);
  TableLearner learner(weights);
  EXPECT_THROW(store.save(state_at(5), weights, learner), Error);
}

}  // namespace
}  // namespace stoker
