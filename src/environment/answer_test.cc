#include "environment/answer.h"

#include <gtest/gtest.h>

#include "environment/testing/test_pool.h"

#include "base/random.h"

namespace stoker {
namespace {

std::string number(std::string_view text) { return last_number(text).value_or("none"); }

TEST(Answer, LastNumberReadsHowPeopleWriteNumbers) {
  EXPECT_EQ(number("The answer is 1788."), "1788");
  EXPECT_EQ(number("18."), "18");
  EXPECT_EQ(number("$18.00"), "18");
  EXPECT_EQ(number("1,234"), "1234");
  EXPECT_EQ(number("1,234,567.50"), "1234567.5");
  EXPECT_EQ(number("about 50 % of 3"), "3");
  EXPECT_EQ(number("50%"), "50");
  EXPECT_EQ(number("#### 72"), "72");
  EXPECT_EQ(number("\\boxed{42}"), "42");
  EXPECT_EQ(number("**7**"), "7");
  EXPECT_EQ(number("€3.50"), "3.5");
  EXPECT_EQ(number("007"), "7");
  EXPECT_EQ(number("0.0"), "0");
  EXPECT_EQ(number(".5"), "0.5");
  EXPECT_EQ(number("1e3"), "1000");
  EXPECT_EQ(number("1.5e+20"), "150000000000000000000");
  EXPECT_EQ(number("25E-3"), "0.025");
  EXPECT_EQ(number("5 eggs"), "5");
  EXPECT_EQ(number("5e"), "5");
  EXPECT_EQ(number("no number"), "none");
  EXPECT_EQ(number(""), "none");
  EXPECT_EQ(number("$,.%"), "none");
}

TEST(Answer, SignsCountOnlyWhereTheyAreSigns) {
  EXPECT_EQ(number("-5"), "-5");
  EXPECT_EQ(number("is −7."), "-7");
  EXPECT_EQ(number("-$5"), "-5");
  EXPECT_EQ(number("$-5"), "-5");
  EXPECT_EQ(number("3-15"), "15");
  EXPECT_EQ(number("(3)-15"), "15");
  EXPECT_EQ(number("covid-19"), "19");
  EXPECT_EQ(number("3 - 15"), "15");
  EXPECT_EQ(number("answer: -15"), "-15");
  EXPECT_EQ(number("-0"), "0");
  EXPECT_EQ(number("-0.0"), "0");
}

TEST(Answer, CommasAreSeparatorsOnlyBetweenGroupsOfThree) {
  EXPECT_EQ(number("1,2"), "2");
  EXPECT_EQ(number("1,2345"), "2345");
  EXPECT_EQ(number("1234,567"), "567");
  EXPECT_EQ(number("12,345"), "12345");
  EXPECT_EQ(number("1,234,56"), "56");
  EXPECT_EQ(number("3, 400"), "400");
}

TEST(Answer, OddTextsGiveSomethingBounded) {
  EXPECT_EQ(number("1.2.3"), "3");
  EXPECT_EQ(number("1e999"), "999");
  EXPECT_EQ(number("1e-999"), "999");
  EXPECT_EQ(number("1..2"), "2");
  EXPECT_EQ(number("well...5"), "5");
  RandomStream random(StreamKey{.run_seed = 1});
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = random.below(20); n > 0; --n)
      text.push_back("0123456789.,-$e+ \xE2\x88\x92)"[random.below(21)]);
    std::optional<std::string> found = last_number(text);
    ASSERT_EQ(found.has_value(), text.find_first_of("0123456789") != std::string::npos) << text;
    if (found) ASSERT_EQ(last_number(*found), found) << text;  // canonical forms are their own
  }
}

TEST(Answer, LongTextsTakeLinearTime) {
  std::string digits(10'000'000, '1');
  EXPECT_EQ(number(digits).size(), digits.size());
  std::string points;
  while (points.size() < 10'000'000) points += "1,1.1e1-";
  EXPECT_TRUE(last_number(points).has_value());
}

TEST(Answer, NormalizedTextsIgnoreBlanks) {
  EXPECT_EQ(normalized_text("  New \t\n York ", false), "New York");
  EXPECT_EQ(normalized_text("New York", true), "new york");
  EXPECT_EQ(normalized_text("Ä", true), "Ä");
  EXPECT_EQ(normalized_text(" \n", true), "");
}

// What final_answer sees of an episode that ended with `last`.
std::optional<std::string> answer_of(Message last, StopReason reason = StopReason::kStopToken,
                                     std::optional<Failure> failure = std::nullopt) {
  TaskRow task;
  std::vector<Message> messages = {{.role = Role::kUser, .content = "q"}, std::move(last)};
  EpisodeRecord record;
  record.trajectory.begin_sampled(0);
  record.trajectory.append_sampled(1, -1.0f, 0);
  record.trajectory.close_sampled(reason);
  record.failure = std::move(failure);
  return final_answer({task, messages, record, test_pool()});
}

TEST(Answer, TheFinalAnswerIsAWholeAssistantTurnWithoutCalls) {
  Message answer{.role = Role::kAssistant, .content = "18"};
  EXPECT_EQ(answer_of(answer), "18");
  EXPECT_EQ(answer_of(answer, StopReason::kStopString), "18");
  EXPECT_EQ(answer_of(answer, StopReason::kLength), std::nullopt);
  EXPECT_EQ(answer_of(answer, StopReason::kAborted), std::nullopt);
  EXPECT_EQ(answer_of(answer, StopReason::kStopToken, Failure{FailureClass::kLimit, "turns", ""}),
            std::nullopt);
  EXPECT_EQ(answer_of({.role = Role::kTool, .content = "18"}), std::nullopt);
  EXPECT_EQ(answer_of({.role = Role::kUser, .content = "18"}), std::nullopt);
  EXPECT_EQ(answer_of({.role = Role::kAssistant, .content = "18", .tool_calls = {ToolCall{.name = "x"}}}),
            std::nullopt);
  TaskRow task;
  std::vector<Message> none;
  EpisodeRecord record;
  EXPECT_EQ(final_answer({task, none, record, test_pool()}), std::nullopt);
}

}  // namespace
}  // namespace stoker
