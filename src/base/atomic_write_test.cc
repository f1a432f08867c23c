#include "base/atomic_write.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using detail::FolderStep;
using testing::ElementsAre;
using testing::SizeIs;

class AtomicWrite : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) result.push_back(entry.path().filename());
    return result;
  }
  fs::path path() const { return folder_ / "step_1"; }
  // What the folder at path() holds; "none" when it is not there.
  std::string content() const { return fs::exists(path()) ? read_file(path() / "a") : "none"; }
  void write(const std::string& text) const {
    write_folder_atomic(path(), [&](const fs::path& to) { write_file_atomic(to / "a", text); });
  }
  // Runs `function` in a process that ends without any clean-up when it returns.
  template <typename F>
  static void in_process_that_dies(F function) {
    pid_t child = ::fork();
    if (child == 0) {
      function();
      ::_exit(0);
    }
    ASSERT_GT(child, 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  }
  void write_and_die_after(FolderStep last, bool exchange, const std::string& text) const {
    in_process_that_dies([&] {
      detail::FolderWriting writing{exchange, [&](FolderStep step) {
                                      if (step == last) ::_exit(0);
                                    }};
      detail::write_folder(path(), [&](const fs::path& to) { write_file_atomic(to / "a", text); }, writing);
    });
  }

  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

TEST_F(AtomicWrite, WithExchangeAWholeFolderIsThereWheneverTheProcessEnds) {
  for (auto [last, expected] : {std::pair{FolderStep::kFilled, "old"},
                                {FolderStep::kFlushed, "old"},
                                {FolderStep::kInPlace, "new"}}) {
    write("old");
    write_and_die_after(last, /*exchange=*/true, "new");
    EXPECT_EQ(content(), expected) << static_cast<int>(last);
    EXPECT_THAT(names(), SizeIs(2));  // what the dead process left
    write("third");
    EXPECT_EQ(content(), "third");
    EXPECT_THAT(names(), ElementsAre("step_1"));
  }
}

TEST_F(AtomicWrite, WithoutExchangeTheNextWriteGivesTheOldFolderItsNameBack) {
  write("old");
  write_and_die_after(FolderStep::kMovedAway, /*exchange=*/false, "new");
  EXPECT_EQ(content(), "none");
  EXPECT_THROW(write_folder_atomic(path(), [](const fs::path&) { throw resource_error("disk full"); }),
               Error);
  EXPECT_EQ(content(), "old");
  EXPECT_THAT(names(), ElementsAre("step_1"));
}

TEST_F(AtomicWrite, WithoutExchangeTheFolderIsReplacedToo) {
  for (const char* text : {"first", "second"}) {
    detail::write_folder(path(), [&](const fs::path& to) { write_file_atomic(to / "a", text); },
                         {.exchange = false});
    EXPECT_EQ(content(), text);
    EXPECT_THAT(names(), ElementsAre("step_1"));
  }
}

TEST_F(AtomicWrite, SweepsOnlyWhatNobodyUses) {
  const std::string dead = ".step_1.999999999.0.tmp";  // above the largest process number of Linux
  const std::string living = ".step_1." + std::to_string(::getppid()) + ".0.tmp";
  const std::string former = ".step_1." + std::to_string(::getpid()) + ".4000000000.tmp";
  const std::vector<std::string> others = {".step_10.999999999.0.tmp", ".step_1.999999999.tmp",
                                           ".step_1.999999999.0.tmp.x", "step_1.999999999.0.tmp"};
  for (const std::string& name : {dead, dead + ".old", living, former}) fs::create_directory(folder_ / name);
  for (const std::string& name : others) fs::create_directory(folder_ / name);
  write("a");
  std::vector<std::string> expected = others;
  expected.insert(expected.end(), {"step_1", living});
  EXPECT_THAT(names(), testing::UnorderedElementsAreArray(expected));
}

TEST_F(AtomicWrite, WritersOfOnePathInOneProcessDoNotDisturbEachOther) {
  detail::write_folder(path(),
                       [&](const fs::path& to) {
                         write_file_atomic(to / "a", "outer");
                         write("inner");
                       },
                       {});
  EXPECT_EQ(content(), "outer");
  AtomicFile first(folder_ / "x");
  AtomicFile second(folder_ / "x");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder_ / "x"), "first");
  EXPECT_THAT(names(), testing::UnorderedElementsAre("step_1", "x"));
}

TEST_F(AtomicWrite, AFileIsThereOnlyOnceCommitted) {
  write_file_atomic(folder_ / "x", "old");
  {
    AtomicFile file(folder_ / "x");
    file.write("ne");
    EXPECT_EQ(read_file(folder_ / "x"), "old");
  }
  EXPECT_THAT(names(), ElementsAre("x"));
  in_process_that_dies([&] {
    AtomicFile file(folder_ / "x");
    file.write("ne");
    ::_exit(0);
  });
  EXPECT_THAT(names(), SizeIs(2));
  AtomicFile file(folder_ / "x");
  file.write("ne");
  file.write("w");
  file.commit();
  EXPECT_EQ(read_file(folder_ / "x"), "new");
  EXPECT_THAT(names(), ElementsAre("x"));
}

TEST_F(AtomicWrite, ALinkStaysAndWhatItNamesIsReplaced) {
  write_file_atomic(folder_ / "target", "old");
  fs::create_symlink("target", folder_ / "link");
  fs::create_symlink("nowhere_yet", folder_ / "dangling");
  write_file_atomic(folder_ / "link", "new");
  write_file_atomic(folder_ / "dangling", "made");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_file(folder_ / "target"), "new");
  EXPECT_EQ(read_file(folder_ / "nowhere_yet"), "made");
  EXPECT_THAT(names(), SizeIs(4));
}

TEST_F(AtomicWrite, APipeIsWrittenToAndStays) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Descriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_file_atomic(pipe, "text");
  char text[8] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_THAT(names(), ElementsAre("pipe"));
}

TEST_F(AtomicWrite, AFolderThatCannotBeReadIsAnErrorWithASentence) {
  try {
    write_folder_atomic(folder_ / "none" / "x", [](const fs::path&) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file or directory; check the path"));
  }
}

}  // namespace
}  // namespace stoker
