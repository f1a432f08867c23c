#include "engine/stop_text.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace stoker {
namespace {

TEST(StopText, SMP_09_AStopStringOverSeveralTokens) {
  StopText text({"DEFGHIJ"});
  EXPECT_FALSE(text.append("abc"));
  EXPECT_FALSE(text.append("DEF"));
  EXPECT_FALSE(text.append("G"));
  EXPECT_FALSE(text.append("HI"));
  EXPECT_TRUE(text.append("J"));
  EXPECT_EQ(text.text(), "abc");
}

TEST(StopText, SMP_09_AStopStringThatEndsInsideAToken) {
  StopText text({"</answer>"});
  EXPECT_FALSE(text.append("42</ans"));
  EXPECT_FALSE(text.append("w"));
  EXPECT_FALSE(text.append("42</answ"));
  EXPECT_TRUE(text.append("er>\n"));
  EXPECT_EQ(text.text(), "42</answ42");
}

TEST(StopText, TheEarliestOfSeveralCuts) {
  StopText text({"cd", "bcde"});
  EXPECT_FALSE(text.append("abc"));
  EXPECT_TRUE(text.append("def"));
  EXPECT_EQ(text.text(), "a");
}

TEST(StopText, WithoutAStopAllIsText) {
  StopText text;
  EXPECT_FALSE(text.append("ab"));
  EXPECT_FALSE(text.append(""));
  EXPECT_FALSE(text.append("c"));
  EXPECT_EQ(text.text(), "abc");
}

TEST(StopText, AStopStringMayBeginInEarlierText) {
  StopText text({"END"}, "xE");
  EXPECT_FALSE(text.append("N"));
  EXPECT_TRUE(text.append("D!"));
  EXPECT_EQ(text.text(), "");
  StopText complete({"xE"}, "xE");
  EXPECT_FALSE(complete.append("y")) << "a string that was complete before is not completed now";
  EXPECT_EQ(complete.text(), "y");
}

TEST(StopText, FindsWhatASearchOfTheWholeFinds) {
  RandomStream random(StreamKey{.run_seed = 11});
  for (int trial = 0; trial < 2000; ++trial) {
    const auto word = [&random](uint64_t longest) {
      std::string result;
      for (uint64_t n = 1 + random.below(longest); n > 0; --n)
        result += static_cast<char>('a' + random.below(2));
      return result;
    };
    const std::vector<std::string> stops = {word(5), word(7)};
    StopText text(stops);
    std::string whole;
    bool stopped = false;
    while (!stopped && whole.size() < 60) {
      const std::string token = word(4);
      whole += token;
      const size_t expected = std::min(whole.find(stops[0]), whole.find(stops[1]));
      stopped = text.append(token);
      ASSERT_EQ(stopped, expected != std::string::npos);
      EXPECT_EQ(text.text(), whole.substr(0, expected));
    }
  }
}

}  // namespace
}  // namespace stoker
