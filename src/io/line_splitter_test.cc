#include "io/line_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace stoker {
namespace {

std::vector<std::string> feed_all(LineSplitter& lines, const std::vector<std::string>& pieces) {
  std::vector<std::string> result;
  for (const std::string& piece : pieces) {
    if (!lines.feed(piece, [&](std::string_view line) { result.emplace_back(line); })) {
      result.emplace_back("<refused>");
    }
  }
  return result;
}

TEST(LineSplitter, GivesWholeLinesAndKeepsTheRest) {
  LineSplitter lines(100);
  EXPECT_EQ(feed_all(lines, {"one\ntw", "o\r\n", "\n\nthr"}),
            (std::vector<std::string>{"one", "two", "", ""}));
  EXPECT_EQ(lines.rest(), "thr");
}

TEST(LineSplitter, LinesDoNotDependOnThePieces) {
  RandomStream random(StreamKey{.purpose = RandomPurpose::kData, .task_ordinal = 77});
  for (int round = 0; round < 300; ++round) {
    std::string text;
    const uint64_t size = random.below(60);
    for (uint64_t i = 0; i < size; ++i) text += "ab\r\n\n"[random.below(5)];
    for (const auto overlong : {LineSplitter::Overlong::kRefuse, LineSplitter::Overlong::kCut}) {
      std::vector<std::string> bytes;
      for (char c : text) bytes.emplace_back(1, c);
      LineSplitter whole(8, overlong), cut(8, overlong);
      std::vector<std::string> expected = feed_all(whole, {text});
      std::vector<std::string> found = feed_all(cut, bytes);
      const auto refused = std::find(found.begin(), found.end(), "<refused>");
      if (refused != found.end()) found.erase(refused + 1, found.end());
      EXPECT_EQ(found, expected) << text;
    }
  }
}

TEST(LineSplitter, RefusesALineAboveTheLimitForGood) {
  LineSplitter lines(4);
  EXPECT_EQ(feed_all(lines, {"1234\n12345\n6\n", "7\n"}),
            (std::vector<std::string>{"1234", "<refused>", "<refused>"}));
  LineSplitter endless(4);
  EXPECT_EQ(feed_all(endless, {"123", "456", "7"}), (std::vector<std::string>{"<refused>", "<refused>"}));
}

TEST(LineSplitter, CutsALineAboveTheLimit) {
  LineSplitter lines(4, LineSplitter::Overlong::kCut);
  EXPECT_EQ(feed_all(lines, {"123456789\r\nx\n"}), (std::vector<std::string>{"1234", "5678", "9", "x"}));
  LineSplitter endless(4, LineSplitter::Overlong::kCut);
  feed_all(endless, {std::string(1000, 'x')});
  EXPECT_LE(endless.rest().size(), 5u);
}

}  // namespace
}  // namespace stoker
