#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) result.push_back(entry.path().filename());
    return result;
  }
  static std::vector<std::string> lines(const fs::path& path) {
    std::vector<std::string> result;
    for_each_line(path, [&](std::string_view line, size_t, bool complete) {
      result.push_back(std::string(line) + (complete ? "" : "|cut"));
      return true;
    });
    return result;
  }

  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
};

template <typename F>
std::string sentence_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(File, ReadsBackWhatWasWritten) {
  std::string content("a\0b\n\xFF", 5);
  write_file_atomic(folder_ / "x", content);
  EXPECT_EQ(read_file(folder_ / "x"), content);
  write_file_atomic(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x"), "");
  EXPECT_THAT(names(), testing::ElementsAre("x"));
}

TEST_F(File, ReadsFilesWhoseSizeIsUnknown) {
  EXPECT_NE(read_file("/proc/self/status").find("Pid:"), std::string::npos);
}

TEST_F(File, RefusesMoreThanTheLimit) {
  write_file_atomic(folder_ / "x", "12345");
  EXPECT_EQ(read_file(folder_ / "x", 5), "12345");
  EXPECT_THAT(sentence_of([&] { read_file(folder_ / "x", 4); }),
              testing::HasSubstr("larger than the 4 bytes"));
}

TEST_F(File, ErrorsNameThePathAndTheReason) {
  EXPECT_EQ(sentence_of([&] { read_file(folder_ / "none"); }),
            "Cannot read " + (folder_ / "none").string() + ": No such file or directory; check the path.");
  EXPECT_THAT(sentence_of([&] { read_file(folder_); }), testing::HasSubstr("Is a directory"));
  EXPECT_THAT(sentence_of([&] { write_file_atomic(folder_ / "no" / "x", "a"); }),
              testing::HasSubstr("No such file or directory"));
  EXPECT_THAT(sentence_of([&] { MappedFile map(folder_ / "none"); }), testing::HasSubstr("Cannot map"));
  EXPECT_THAT(sentence_of([&] { LineWriter writer(folder_); }), testing::HasSubstr("Is a directory"));
}

// The limit on file sizes stands for a full disk: the write fails part-way.
class LimitFileSize {
 public:
  explicit LimitFileSize(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limited = old_;
    limited.rlim_cur = bytes;
    old_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~LimitFileSize() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  void (*old_handler_)(int);
};

TEST_F(File, FailedWriteKeepsTheOldContent) {
  write_file_atomic(folder_ / "x", "old");
  std::string sentence;
  {
    LimitFileSize limit(1000);
    sentence = sentence_of([&] { write_file_atomic(folder_ / "x", std::string(5000, 'n')); });
  }
  EXPECT_THAT(sentence, testing::HasSubstr("File too large"));
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_THAT(names(), testing::ElementsAre("x"));
}

TEST_F(File, FailedLineLeavesNoPart) {
  LineWriter writer(folder_ / "x");
  writer.write_line(std::string(600, 'a'));
  {
    LimitFileSize limit(1000);
    EXPECT_THROW(writer.write_line(std::string(600, 'b')), Error);
  }
  writer.write_line("c");
  EXPECT_THAT(lines(folder_ / "x"), testing::ElementsAre(std::string(600, 'a'), "c"));
}

TEST_F(File, FolderIsReplacedWhole) {
  fs::path path = folder_ / "step_1";
  write_folder_atomic(path, [](const fs::path& to) {
    write_file_atomic(to / "a", "1");
    fs::create_directory(to / "sub");
    write_file_atomic(to / "sub" / "b", "2");
  });
  EXPECT_EQ(read_file(path / "sub" / "b"), "2");
  write_folder_atomic(path / "", [](const fs::path& to) { write_file_atomic(to / "c", "3"); });
  EXPECT_FALSE(fs::exists(path / "a"));
  EXPECT_EQ(read_file(path / "c"), "3");
  EXPECT_THAT(names(), testing::ElementsAre("step_1"));
}

TEST_F(File, FolderStaysWhenFillingFails) {
  fs::path path = folder_ / "step_1";
  write_folder_atomic(path, [](const fs::path& to) { write_file_atomic(to / "a", "1"); });
  EXPECT_THROW(write_folder_atomic(path,
                                   [](const fs::path& to) {
                                     write_file_atomic(to / "a", "2");
                                     throw resource_error("disk full");
                                   }),
               Error);
  EXPECT_EQ(read_file(path / "a"), "1");
  EXPECT_THAT(names(), testing::ElementsAre("step_1"));
}

TEST_F(File, AppendRemovesACutLastLine) {
  for (const std::string& before : {std::string("one\ntwo\nthr"), "one\ntwo\n" + std::string(200000, 'x')}) {
    std::ofstream(folder_ / "x") << before;
    LineWriter writer(folder_ / "x", /*append=*/true);
    writer.write_line("three");
    EXPECT_EQ(read_file(folder_ / "x"), "one\ntwo\nthree\n");
  }
  std::ofstream(folder_ / "x") << "no line at all";
  LineWriter(folder_ / "x", true).write_line("first");
  EXPECT_EQ(read_file(folder_ / "x"), "first\n");
  LineWriter fresh(folder_ / "fresh", true);
  fresh.write_line("first");
  EXPECT_EQ(read_file(folder_ / "fresh"), "first\n");
}

TEST_F(File, LineWriterStartsAnewAndMoves) {
  std::ofstream(folder_ / "x") << "old\n";
  LineWriter first(folder_ / "x");
  LineWriter second(std::move(first));
  second.write_line("new");
  second.flush_to_disk();
  EXPECT_EQ(read_file(folder_ / "x"), "new\n");
  EXPECT_THROW(second.write_line("a\nb"), Error);
}

TEST_F(File, VisitsLinesSplitOnLineFeedsOnly) {
  std::ofstream(folder_ / "x") << "a\r\n\n\xE2\x80\xA8 b\nlast";
  EXPECT_THAT(lines(folder_ / "x"), testing::ElementsAre("a\r", "", "\xE2\x80\xA8 b", "last|cut"));
  std::ofstream(folder_ / "empty");
  EXPECT_THAT(lines(folder_ / "empty"), testing::IsEmpty());
  size_t visited = 0;
  for_each_line(folder_ / "x", [&](std::string_view, size_t number, bool) {
    visited = number;
    return number < 2;
  });
  EXPECT_EQ(visited, 2u);
}

TEST_F(File, LongLinesCrossTheBufferAndTheLimitNamesTheLine) {
  std::string longest(1000000, 'x');
  std::ofstream(folder_ / "x") << "a\n" << longest << "\nb\n";
  EXPECT_THAT(lines(folder_ / "x"), testing::ElementsAre("a", longest, "b"));
  auto ignore = [](std::string_view, size_t, bool) { return true; };
  EXPECT_THAT(sentence_of([&] { for_each_line(folder_ / "x", ignore, 999999); }),
              testing::HasSubstr("line 2: the line is longer than 999999 bytes"));
  for_each_line(folder_ / "x", ignore, 1000000);
}

TEST_F(File, MapsAFile) {
  write_file_atomic(folder_ / "x", "weights");
  MappedFile map(folder_ / "x");
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(map.data()), map.size()), "weights");
  MappedFile moved(std::move(map));
  EXPECT_EQ(moved.size(), 7u);
  EXPECT_EQ(map.data(), nullptr);  // NOLINT(bugprone-use-after-move): moved from, it maps nothing
  write_file_atomic(folder_ / "empty", "");
  EXPECT_EQ(MappedFile(folder_ / "empty").size(), 0u);
}

}  // namespace
}  // namespace stoker
