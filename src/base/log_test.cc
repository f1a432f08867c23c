#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

template <typename F>
std::string standard_error_of(F f) {
  testing::internal::CaptureStderr();
  f();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, OneLineAMessageAndLevelsFilter) {
  std::string text = standard_error_of([] {
    log_debug("hidden");
    log_info("step {}", 3);
    log_warning("slow");
    log_error("braces {{}} and %s stay");
  });
  EXPECT_EQ(text, "step 3\nwarning: slow\nerror: braces {} and %s stay\n");
  set_log_level(LogLevel::kError);
  EXPECT_EQ(standard_error_of([] {
              log_warning("hidden");
              log_error("seen");
            }),
            "error: seen\n");
  set_log_level(LogLevel::kInfo);
}

TEST(Log, JsonLinesAreStrictJson) {
  set_log_json(true);
  std::string text = standard_error_of([] { log_warning("quote \" and {}", "\n"); });
  set_log_json(false);
  Json line = Json::parse(text);
  EXPECT_EQ(line.at("level").as_string(), "warning");
  EXPECT_EQ(line.at("message").as_string(), "quote \" and \n");
}

// Standard error on a pseudo-terminal: what a terminal gets.
std::string terminal_output_of(void (*f)()) {
  int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "no terminal";
  int line = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  int kept = ::dup(STDERR_FILENO);
  ::dup2(line, STDERR_FILENO);
  f();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(line);  // so that reading ends behind the last byte
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(terminal, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  ::close(terminal);
  return text;
}

TEST(Log, ATerminalGetsItsLineClearedButNotWithJson) {
  std::string text = terminal_output_of([] { log_info("plain"); });
  if (text == "no terminal") GTEST_SKIP() << "this machine gives no pseudo-terminal";
  EXPECT_EQ(text, "\r\x1b[Kplain\r\n");
  set_log_json(true);
  text = terminal_output_of([] { log_info("plain"); });
  set_log_json(false);
  EXPECT_EQ(Json::parse(text).at("message").as_string(), "plain");
}

TEST(Log, FileHoldsMessagesWithTime) {
  const TestFolder folder;
  const fs::path path = folder / "log.txt";
  open_log_file(path);
  standard_error_of([] { log_info("to the file"); });
  EXPECT_THAT(read_file(path), testing::MatchesRegex("[0-9-]+ [0-9:.]+ info to the file\n"));
  EXPECT_THROW(open_log_file("/proc/none/log.txt"), Error);
}

}  // namespace
}  // namespace stoker
