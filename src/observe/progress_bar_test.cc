#include "observe/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace stoker {
namespace {

TEST(ProgressBar, TerminalLineIsRedrawnInPlace) {
  std::vector<std::string> pieces;
  ProgressBar bar("train", 40, 80, [&](std::string_view text) { pieces.emplace_back(text); });
  bar.update(0, 0);
  bar.update(10, 20, "reward 0.81");
  bar.clear();
  bar.clear();
  bar.update(40, 80);
  bar.clear();
  EXPECT_THAT(pieces, testing::ElementsAre(
                          "\r\x1b[Ktrain [....................] 0/40",
                          "\r\x1b[Ktrain [#####...............] 10/40, 1 min 00 s left, reward 0.81",
                          "\r\x1b[K", "\r\x1b[Ktrain [####################] 40/40, took 1 min 20 s\n"));
}

TEST(ProgressBar, NeverFillsTheLastColumn) {
  std::string piece;
  ProgressBar bar("a long title", 4, 20, [&](std::string_view text) { piece = text; });
  bar.update(1, 1, "many words that do not fit");
  EXPECT_EQ(piece.size(), 4 + 19u);
}

TEST(ProgressBar, ElsewhereOnePlainLineForEachTenth) {
  std::vector<std::string> lines;
  ProgressBar bar("warm-up", 1000, 0, [&](std::string_view text) { lines.emplace_back(text); });
  for (int done = 0; done <= 1000; ++done) bar.update(done, done * 0.01);
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_EQ(lines[0], "warm-up: 0/1000\n");
  EXPECT_EQ(lines[3], "warm-up: 300/1000, 7 s left\n");
  EXPECT_EQ(lines[10], "warm-up: 1000/1000, took 10 s\n");
  for (const std::string& line : lines) EXPECT_THAT(line, testing::Not(testing::HasSubstr("\x1b")));
}

TEST(ProgressBar, WorkPastTheTotalIsTheTotalAndAnEmptyTotalIsRefused) {
  std::string piece;
  ProgressBar bar("x", 2, 0, [&](std::string_view text) { piece = text; });
  bar.update(9, 1);
  EXPECT_EQ(piece, "x: 2/2, took 1 s\n");
  EXPECT_THROW(ProgressBar("x", 0, 0, [](std::string_view) {}), Error);
}

TEST(FormatSeconds, ForPeople) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(59.4), "59 s");
  EXPECT_EQ(format_seconds(59.6), "1 min 00 s");
  EXPECT_EQ(format_seconds(3599.6), "1 h 00 min");
  EXPECT_EQ(format_seconds(7500), "2 h 05 min");
  EXPECT_EQ(format_seconds(-1), "?");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "?");
}

}  // namespace
}  // namespace stoker
