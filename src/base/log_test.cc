#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

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

TEST(Log, FileHoldsMessagesWithTime) {
  fs::path path = fs::path(testing::TempDir()) / "stoker_log_test.txt";
  fs::remove(path);
  open_log_file(path);
  standard_error_of([] { log_info("to the file"); });
  EXPECT_THAT(read_file(path), testing::MatchesRegex("[0-9-]+ [0-9:.]+ info to the file\n"));
  EXPECT_THROW(open_log_file("/proc/none/log.txt"), Error);
  fs::remove(path);
}

}  // namespace
}  // namespace stoker
