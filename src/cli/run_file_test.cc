#include "cli/run_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

class RunFileTest : public testing::Test {
 protected:
  RunFile read(const std::string& text, std::vector<std::string> assignments = {}) {
    write_file_atomic(path_, text);
    return read_run_file({.run_file = path_, .assignments = std::move(assignments)});
  }
  std::string refusal(const std::string& text, std::vector<std::string> assignments = {}) {
    try {
      read(text, std::move(assignments));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  }

  const TestFolder folder_;
  const fs::path path_ = folder_ / "run_file_test.toml";
};

// CFG-05: default, then file, then command line, and the dump tells which.
TEST_F(RunFileTest, CFG_05_TheCommandLineWinsOverTheFileOverTheDefault) {
  EXPECT_EQ(read("").config.rollout.steps, 40);
  EXPECT_EQ(read("[rollout]\nsteps = 7\n").config.rollout.steps, 7);
  RunFile file = read("[rollout]\nsteps = 7\n", {"rollout.steps=9"});
  EXPECT_EQ(file.config.rollout.steps, 9);
  EXPECT_NE(file.resolved.find("command line"), std::string::npos);
}

TEST_F(RunFileTest, TheDumpReadsBackToTheSameConfiguration) {
  RunFile file = read("seed = 5\n[environment.arithmetic]\nevaluation_size = 64\n", {"rollout.mode=sync"});
  RunFile again = read(file.resolved);
  EXPECT_EQ(file.digest, again.digest);
  EXPECT_EQ(again.config.rollout.mode, "sync");
}

TEST_F(RunFileTest, TheDigestIgnoresWhereAndHowFastARunGoes) {
  std::string digest = read("").digest;
  EXPECT_EQ(read("output = \"elsewhere\"\nthreads = 3\n").digest, digest);
  EXPECT_EQ(read("[engine]\nreplicas = 3\nchild_processes = 2\nchild_threads = 1\n").digest, digest);
  EXPECT_EQ(read("[engine]\nreplicas = 2\nprepare_timeout_seconds = 9\ncommit_timeout_seconds = 5\n").digest,
            digest);
  EXPECT_EQ(read("memory_megabytes = 4000\nrecompute = \"layer\"\nmetrics_port = 9100\n").digest, digest);
  EXPECT_NE(read("[engine]\ncache_on_update = \"recompute\"\n").digest, digest);
  EXPECT_NE(read("seed = 2\n").digest, digest);
}

// CFG-01: a misspelt key is refused with the nearest name.
TEST_F(RunFileTest, CFG_01_UnknownKeysAreRefusedWithTheNearestName) {
  EXPECT_NE(refusal("[rollout]\nmax_stalness = 2\n").find("did you mean rollout.max_staleness?"),
            std::string::npos);
  EXPECT_NE(refusal("", {"environment.arithmetic.evaluation_sise=3"}).find("evaluation_size"),
            std::string::npos);
}

TEST_F(RunFileTest, ValuesThatDoNotFitTogetherAreNamedByBothKeys) {
  std::string sentence = refusal("[rollout]\ngroup_size = 8\nmax_concurrent_episodes = 4\n");
  EXPECT_NE(sentence.find("rollout.group_size"), std::string::npos);
  EXPECT_NE(sentence.find("rollout.max_concurrent_episodes"), std::string::npos);
  for (const char* bound : {"0", "1"}) {
    const std::string text = std::string("[rollout]\nadaptive_depth = true\nmax_ahead = ") + bound + "\n";
    EXPECT_NE(refusal(text).find("rollout.adaptive_depth"), std::string::npos) << bound;
    EXPECT_NE(refusal(text).find("rollout.max_ahead"), std::string::npos) << bound;
  }
  EXPECT_EQ(refusal("[rollout]\nadaptive_depth = true\nmax_ahead = 2\n"), "");
  EXPECT_NE(refusal("[rollout]\nadaptive_depth = true\nmode = \"sync\"\n").find("rollout.mode"),
            std::string::npos);
  EXPECT_NE(refusal("[rollout]\nmax_ahead = 5\nmax_staleness = 2\n").find("rollout.max_staleness"),
            std::string::npos);
  for (const char* other : {"adaptive_depth = true\nmax_ahead = 2", "mode = \"sync\""}) {
    const std::string text = std::string("[rollout]\nextra_groups = 4\n") + other + "\n";
    EXPECT_NE(refusal(text).find("rollout.extra_groups"), std::string::npos) << text;
  }
  sentence =
      refusal("[rollout]\nextra_groups = 4\nbatch_order = \"strict\"\nmax_ahead = 0\nmax_staleness = 0\n");
  EXPECT_NE(sentence.find("rollout.extra_groups"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("rollout.batch_order"), std::string::npos) << sentence;
  EXPECT_EQ(refusal("[rollout]\nextra_groups = 4\n"), "");
  EXPECT_EQ(refusal("[rollout]\nextra_groups = 4\nbatch_order = \"strict\"\nmax_ahead = 1\n"), "");
  EXPECT_NE(refusal("[evaluate]\ntemperatures = []\n").find("evaluate.temperatures"), std::string::npos);
}

TEST_F(RunFileTest, WhatModeSyncLeavesWithoutEffectIsTold) {
  testing::internal::CaptureStderr();
  read("[rollout]\nmax_ahead = 3\n", {"rollout.mode=sync"});
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("rollout.mode (command line) is sync"), std::string::npos) << told;
  EXPECT_NE(told.find("line 2) = 3 has no effect"), std::string::npos) << told;

  testing::internal::CaptureStderr();
  const RunFile quiet = read("", {"rollout.mode=sync"});
  EXPECT_EQ(quiet.config.rollout.max_ahead, 0);
  read(quiet.resolved);
  read("[rollout]\nmax_ahead = 3\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(RunFileTest, AnEmptyNameOfTheRunFolderIsRefused) {
  EXPECT_NE(refusal("output = \"\"\n").find("line 1) is empty"), std::string::npos);
  EXPECT_NE(refusal("", {"output="}).find("output=FOLDER"), std::string::npos);
}

// ENV-13: time-outs that are not numbers of seconds.
TEST_F(RunFileTest, ENV_13_TimeoutsAreNumbersOfSeconds) {
  for (const char* value : {"nan", "-1.0", "0.0", "\"30s\"", "-inf"}) {
    std::string sentence = refusal("", {std::string("rollout.limits.step_timeout_seconds=") + value});
    EXPECT_NE(sentence.find("rollout.limits.step_timeout_seconds"), std::string::npos) << value;
  }
  EXPECT_EQ(refusal("", {"rollout.limits.step_timeout_seconds=inf"}), "");
}

TEST_F(RunFileTest, EveryKeyReachesItsArea) {
  RunConfig config = read("", {"rollout.mode=async", "rollout.max_ahead=3", "rollout.failed_members=drop",
                               "rollout.max_attempts=5", "rollout.sampling.top_k=7",
                               "rollout.sampling.min_p=0.125", "rollout.limits.max_turns=3"})
                         .config;
  ControllerOptions controller = controller_options(config.rollout);
  EXPECT_EQ(controller.max_ahead, 3);
  EXPECT_EQ(controller.failed_members, FailedMemberPolicy::kDrop);
  EXPECT_EQ(controller.max_attempts, 5);
  config.rollout.mode = "sync";
  EXPECT_EQ(controller_options(config.rollout).max_ahead, 0);
  SamplingParameters sampling = sampling_parameters(config.rollout.sampling);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(config.rollout.limits.limits.max_turns, 3);
}

TEST_F(RunFileTest, ContradictoryEnginesAreRefused) {
  EXPECT_NE(refusal("[engine]\nchild_processes = 2\n").find("engine.replicas"), std::string::npos);
  EXPECT_NE(refusal("[engine]\nreplicas = 0\n"), "");
  EXPECT_NE(refusal("[engine]\nreplicas = 2\nchild_threads = 1\n").find("engine.child_processes"),
            std::string::npos);
  EXPECT_NE(refusal("[engine]\ncommit_timeout_seconds = 5\n").find("engine.replicas"), std::string::npos);
  EXPECT_EQ(refusal("[engine]\ncommit_timeout_seconds = 5\nreplicas = 2\n"), "");
}

}  // namespace
}  // namespace stoker
