#include "cli/run_folder.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  void make_run() { RunFolder(root_ / "run", RunFolder::Existing::kRefuse).save_configuration("seed = 1\n"); }

  const TestFolder test_folder_;
  const fs::path& root_ = test_folder_.path();
};

std::string refusal(const fs::path& path, RunFolder::Existing existing) {
  try {
    RunFolder folder(path, existing);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST_F(RunFolderTest, RefusesToOverwriteARunUnlessAsked) {
  make_run();
  write_file_atomic(root_ / "run/metrics.jsonl", "{}\n");
  EXPECT_NE(refusal(root_ / "run", RunFolder::Existing::kRefuse).find("--resume"), std::string::npos);
  EXPECT_TRUE(fs::exists(root_ / "run/metrics.jsonl"));

  RunFolder(root_ / "run", RunFolder::Existing::kResume);
  EXPECT_TRUE(fs::exists(root_ / "run/metrics.jsonl"));
  RunFolder(root_ / "run", RunFolder::Existing::kOverwrite);
  EXPECT_FALSE(fs::exists(root_ / "run/metrics.jsonl"));
}

TEST_F(RunFolderTest, NeverEmptiesAFolderThatIsNoRun) {
  fs::create_directories(root_ / "thesis");
  write_file_atomic(root_ / "thesis/chapter.txt", "years of work\n");
  EXPECT_NE(refusal(root_ / "thesis", RunFolder::Existing::kOverwrite).find("not a run folder"),
            std::string::npos);
  EXPECT_EQ(read_file(root_ / "thesis/chapter.txt"), "years of work\n");
}

TEST_F(RunFolderTest, ResumesOnlyARun) {
  EXPECT_NE(refusal(root_ / "nothing", RunFolder::Existing::kResume).find("no run to resume"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(root_ / "nothing"));
}

TEST_F(RunFolderTest, PointsLatestAtTheNewestRunAndLeavesARealFolderOfThatName) {
  RunFolder first(root_ / "a", RunFolder::Existing::kRefuse);
  RunFolder second(root_ / "b", RunFolder::Existing::kRefuse);
  EXPECT_EQ(fs::read_symlink(root_ / "latest"), "b");
  fs::remove(root_ / "latest");
  fs::create_directory(root_ / "latest");
  RunFolder third(root_ / "c", RunFolder::Existing::kRefuse);
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(root_ / "latest")));
}

TEST_F(RunFolderTest, ALinkIsTheFolderThatItLeadsTo) {
  RunFolder(root_ / "a", RunFolder::Existing::kRefuse).save_configuration("seed = 1\n");
  for (const auto existing : {RunFolder::Existing::kResume, RunFolder::Existing::kOverwrite}) {
    const RunFolder latest(root_ / "latest", existing);
    EXPECT_EQ(latest.path(), root_ / "a");
    EXPECT_EQ(fs::read_symlink(root_ / "latest"), "a");
    latest.save_configuration("seed = 2\n");
  }
}

TEST_F(RunFolderTest, AFolderIntoWhichARunWritesIsRefusedUnderEveryFlag) {
  const RunFolder live(root_ / "run", RunFolder::Existing::kRefuse);
  live.save_configuration("seed = 1\n");
  for (const auto existing :
       {RunFolder::Existing::kRefuse, RunFolder::Existing::kResume, RunFolder::Existing::kOverwrite}) {
    for (const bool check_only : {true, false}) {
      if (existing == RunFolder::Existing::kRefuse && !check_only) continue;  // told as a folder that exists
      std::string sentence;
      try {
        check_only ? RunFolder::check(root_ / "run", existing) : (void)RunFolder(root_ / "run", existing);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInput);
        sentence = error.what();
      }
      EXPECT_NE(sentence.find((root_ / "run").string()), std::string::npos) << sentence;
      EXPECT_NE(sentence.find(fmt::format("in use by process {};", ::getpid())), std::string::npos)
          << sentence;
    }
  }
  EXPECT_TRUE(fs::exists(root_ / "run/run.toml"));
}

TEST_F(RunFolderTest, TheLockOfAKilledProcessIsGone) {
  make_run();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(root_ / "run");
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(refusal(root_ / "run", RunFolder::Existing::kOverwrite).find(fmt::format("process {};", child)),
            std::string::npos);
  EXPECT_TRUE(fs::exists(root_ / "run/run.toml"));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_EQ(refusal(root_ / "run", RunFolder::Existing::kResume), "");
  EXPECT_EQ(refusal(root_ / "run", RunFolder::Existing::kOverwrite), "");
}

// Cut by a kill, a full disk or a power failure: without its end, or with something else in its place.
TEST_F(RunFolderTest, ResumeRemovesALastLineThatWasCutAndKeepsWholeOnes) {
  make_run();
  const std::string whole = "{\"step\":1}\n{\"step\":2}\n";
  fs::create_directories(root_ / "run/episodes");
  for (const std::string& cut : {std::string("{\"step\":3,\"lo"), std::string("{\"step\":3,\"lo\n"),
                                 std::string(7, '\0'), std::string("\n"), std::string()}) {
    for (const char* name : {"metrics.jsonl", "events.jsonl", "episodes/000000.jsonl"}) {
      write_file_atomic(root_ / "run" / name, whole + cut);
    }
    RunFolder(root_ / "run", RunFolder::Existing::kResume);
    for (const char* name : {"metrics.jsonl", "events.jsonl", "episodes/000000.jsonl"}) {
      EXPECT_EQ(read_file(root_ / "run" / name), whole) << name << " " << cut;
    }
  }
  const std::string broken = "{\"step\":1}\n{\"step\n{\"step\":3}\n";  // for who reads it to refuse
  write_file_atomic(root_ / "run/metrics.jsonl", broken);
  RunFolder(root_ / "run", RunFolder::Existing::kResume);
  EXPECT_EQ(read_file(root_ / "run/metrics.jsonl"), broken);
}

TEST_F(RunFolderTest, ARunFolderThatCannotBeMadeIsRefusedBeforeTheRun) {
  write_file_atomic(root_ / "file", "");
  for (const fs::path& path : {root_ / "file/run", root_ / "file"}) {
    EXPECT_THROW(RunFolder::check(path, RunFolder::Existing::kRefuse), Error) << path;
  }
  EXPECT_NO_THROW(RunFolder::check(root_ / "a/b/c", RunFolder::Existing::kRefuse));
  EXPECT_FALSE(fs::exists(root_ / "a"));
  EXPECT_THROW(RunFolder::check("", RunFolder::Existing::kRefuse), Error);
}

}  // namespace
}  // namespace stoker
