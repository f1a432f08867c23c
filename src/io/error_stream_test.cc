#include "io/error_stream.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(ErrorStream, KeepsTheLastWordsWithinBounds) {
  testing::internal::CaptureStderr();
  ErrorStream errors("child");
  for (int i = 0; i < 500; ++i) errors.feed("line " + std::to_string(i) + "\n", TimePoint{});
  errors.feed("the end", TimePoint{});
  errors.finish(TimePoint{});
  ErrorStream longer("child");
  longer.feed(std::string(100'000, 'x') + "\n", TimePoint{});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(errors.last_words().ends_with("line 498 | line 499 | the end"));
  EXPECT_TRUE(errors.last_words().starts_with("line 437 | "));
  EXPECT_NE(log.find("[child] line 0\n"), std::string::npos);
  EXPECT_EQ(log.find("line 499"), std::string::npos);
  EXPECT_NE(log.find("[child] 301 more lines"), std::string::npos);
  EXPECT_LE(longer.last_words().size(), ErrorStream::kKeptBytes);
}

TEST(ErrorStream, NothingReachesATerminalThatChangesIt) {
  EXPECT_EQ(printable("a\x1b[31mb\tc\r"), "a?[31mb\tc?");
}

}  // namespace
}  // namespace stoker
