#include "cli/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
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
  RunFolder first(root_ / "run", RunFolder::Existing::kRefuse);
  first.save_configuration("seed = 1\n");
  write_file_atomic(first.path() / "metrics.jsonl", "{}\n");
  EXPECT_NE(refusal(root_ / "run", RunFolder::Existing::kRefuse).find("--resume"), std::string::npos);
  EXPECT_TRUE(fs::exists(root_ / "run/metrics.jsonl"));

  RunFolder resumed(root_ / "run", RunFolder::Existing::kResume);
  EXPECT_TRUE(fs::exists(root_ / "run/metrics.jsonl"));
  RunFolder replaced(root_ / "run", RunFolder::Existing::kOverwrite);
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

}  // namespace
}  // namespace stoker
