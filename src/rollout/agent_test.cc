#include "rollout/agent.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "async/testing.h"
#include "async/timeout.h"
#include "rollout/rollout_test_support.h"

namespace stoker {
namespace {

using std::chrono::seconds;

struct ToolSet {
  std::shared_ptr<TestTool> one = std::make_shared<TestTool>("one");
  std::shared_ptr<TestTool> two = std::make_shared<TestTool>("two");
  Tools tools{one, two};
};

CO_TEST(ToolAgent, RunsCallsAndGivesTheirResultsInOrder) {
  ToolSet set;
  auto agent = make_tool_agent({});
  const std::string text = "I look.\n" + call_text("two", 2) + "\n" + call_text("one", 1);
  const Result<AgentTurn> turn = co_await agent->interpret(text, set.tools);
  CO_ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->message.role, Role::kAssistant);
  EXPECT_EQ(turn->message.content, "I look.");
  CO_ASSERT_TRUE(turn->tool_results.size() == 2);
  EXPECT_EQ(turn->tool_results[0].content, "two got 2");
  EXPECT_EQ(turn->tool_results[1].content, "one got 1");
  EXPECT_EQ(turn->tool_results[1].name, "one");
  EXPECT_EQ(turn->tool_results[1].tool_call_id, turn->message.tool_calls[1].id);
  EXPECT_EQ(turn->tool_calls, 2);
  EXPECT_EQ(turn->tool_errors, 0);
}

CO_TEST(ToolAgent, CallsAreReadInTheChosenFormat) {
  ToolSet set;
  auto agent = make_tool_agent({.call_format = "llama3_json"});
  const Result<AgentTurn> turn =
      co_await agent->interpret(R"({"name": "two", "parameters": {"x": 2}})", set.tools);
  CO_ASSERT_TRUE(turn.ok() && turn->tool_results.size() == 1);
  EXPECT_EQ(turn->tool_results[0].content, "two got 2");
}

CO_TEST(ToolAgent, ATurnWithoutCallsHasNoResults) {
  ToolSet set;
  auto agent = make_tool_agent({});
  const Result<AgentTurn> turn = co_await agent->interpret("The answer is 4.", set.tools);
  CO_ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->message.content, "The answer is 4.");
  EXPECT_TRUE(turn->tool_results.empty());
}

CO_TEST(ToolAgent, ENV_01_BrokenJsonIsTheResultOfItsCallAndTheOthersRun) {
  for (const char* broken : {R"({"name": "one", "arguments": {"cmd": "ls" "x": 1}})",
                             R"({"name": "one", "arguments": {"cmd": "ls)"}) {
    ToolSet set;
    auto agent = make_tool_agent({});
    const std::string text = call_text("two", 7) + "\n<tool_call>\n" + broken + "\n</tool_call>";
    const Result<AgentTurn> turn = co_await agent->interpret(text, set.tools);
    CO_ASSERT_TRUE(turn.ok() && turn->tool_results.size() == 2);
    EXPECT_EQ(turn->tool_results[0].content, "two got 7");
    EXPECT_EQ(turn->tool_results[1].content.rfind("error: ", 0), 0u);
    EXPECT_NE(turn->tool_results[1].content.find("at character"), std::string::npos);
    EXPECT_LT(turn->tool_results[1].content.size(), 400u);
    EXPECT_EQ(turn->tool_errors, 1);
    EXPECT_EQ(set.one->calls, 0);
  }
}

CO_TEST(ToolAgent, ENV_03_ABrokenCallIsNeverRunWithOtherArguments) {
  ToolSet set;
  auto agent = make_tool_agent({});
  const Result<AgentTurn> turn = co_await agent->interpret(
      "<tool_call>\n{\"name\": \"one\", \"arguments\": {\"x\": 1, }}\n</tool_call>", set.tools);
  CO_ASSERT_TRUE(turn.ok() && turn->tool_results.size() == 1);
  EXPECT_EQ(set.one->calls, 0);
  EXPECT_NE(turn->tool_results[0].content.find("no valid JSON"), std::string::npos);
}

CO_TEST(ToolAgent, TCP_07_ACallDraftedWhileThinkingIsNotRun) {
  ToolSet set;
  auto agent = make_tool_agent({});
  const std::string text =
      "<think>\nmaybe " + call_text("one", 1) + " works\n</think>\n\n" + call_text("one", 2);
  const Result<AgentTurn> turn = co_await agent->interpret(text, set.tools);
  CO_ASSERT_TRUE(turn.ok() && turn->tool_results.size() == 1);
  EXPECT_EQ(set.one->calls, 1);
  EXPECT_EQ(turn->tool_results[0].content, "one got 2");
}

CO_TEST(ToolAgent, UnknownToolsAndWrongArgumentsAreTold) {
  ToolSet set;
  auto agent = make_tool_agent({});
  const std::string text = call_text("three", 1) +
                           "<tool_call>{\"name\": \"one\", \"arguments\": {\"x\": \"1\"}}</tool_call>" +
                           "<tool_call>{\"name\": \"one\", \"arguments\": {}}</tool_call>";
  const Result<AgentTurn> turn = co_await agent->interpret(text, set.tools);
  CO_ASSERT_TRUE(turn.ok() && turn->tool_results.size() == 3);
  EXPECT_EQ(turn->tool_results[0].content, "error: there is no tool named 'three'; the tools are: one, two.");
  EXPECT_NE(turn->tool_results[1].content.find("arguments.x"), std::string::npos);
  EXPECT_NE(turn->tool_results[2].content.find("x"), std::string::npos);
  EXPECT_EQ(turn->tool_errors, 3);
  EXPECT_EQ(set.one->calls, 0);
}

CO_TEST(ToolAgent, AToolsErrorIsAnObservationAndIsCounted) {
  ToolSet set;
  set.one->behaviour = ToolBehaviour::kError;
  auto agent = make_tool_agent({});
  const Result<AgentTurn> turn = co_await agent->interpret(call_text("one", 1), set.tools);
  CO_ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->tool_results[0].content, "error: planted");
  EXPECT_EQ(turn->tool_errors, 1);
}

CO_TEST_SIMULATED(ToolAgent, CallsRunSideBySideWithinTheWindow) {
  ToolSet set;
  set.one->behaviour = ToolBehaviour::kSleep;
  auto agent = make_tool_agent({.max_parallel_calls = 3});
  std::string text;
  for (int x = 0; x < 6; ++x) text += call_text("one", x);
  Executor& executor = co_await current_executor();
  const TimePoint start = executor.now();
  const Result<AgentTurn> turn = co_await agent->interpret(text, set.tools);
  EXPECT_EQ(executor.now() - start, seconds(20));
  EXPECT_EQ(set.one->most_running, 3);
  CO_ASSERT_TRUE(turn.ok());
  for (int x = 0; x < 6; ++x) EXPECT_EQ(turn->tool_results[x].content, "one got " + std::to_string(x));
}

Task<> expect_failure(ToolBehaviour behaviour, std::string name, Duration time) {
  ToolSet set;
  set.one->behaviour = behaviour;
  auto agent = make_tool_agent({});
  Executor& executor = co_await current_executor();
  const TimePoint start = executor.now();
  const Result<AgentTurn> turn =
      co_await agent->interpret(call_text("two", 1) + call_text("one", 1), set.tools);
  CO_ASSERT_TRUE(!turn.ok());
  EXPECT_EQ(turn.failure().name(), name);
  EXPECT_EQ(executor.now() - start, time);
  EXPECT_EQ(set.two->calls, 1);
}

CO_TEST_SIMULATED(ToolAgent, FailuresOfTheInfrastructureAreNoObservations) {
  co_await expect_failure(ToolBehaviour::kHang, "tool.timeout", seconds(30));
  co_await expect_failure(ToolBehaviour::kHangHard, "tool.timeout", seconds(35));
  co_await expect_failure(ToolBehaviour::kThrow, "tool.exception", seconds(0));
  co_await expect_failure(ToolBehaviour::kThrowForeign, "tool.exception", seconds(0));
  co_await expect_failure(ToolBehaviour::kFail, "tool.planted", seconds(0));
}

CO_TEST_SIMULATED(ToolAgent, FailuresThatAreShownAreResultsAndTheOtherCallsRun) {
  for (ToolBehaviour behaviour : {ToolBehaviour::kHang, ToolBehaviour::kThrow, ToolBehaviour::kFail}) {
    ToolSet set;
    set.one->behaviour = behaviour;
    auto agent = make_tool_agent({.show_failures = true});
    const Result<AgentTurn> turn =
        co_await agent->interpret(call_text("two", 1) + call_text("one", 1), set.tools);
    CO_ASSERT_TRUE(turn.ok() && turn->tool_results.size() == 2);
    EXPECT_EQ(turn->tool_results[0].content, "two got 1");
    EXPECT_EQ(turn->tool_results[1].content.rfind("error: ", 0), 0u);
    EXPECT_EQ(turn->tool_errors, 1);
  }
}

CO_TEST_SIMULATED(ToolAgent, CancellationReachesTheTool) {
  ToolSet set;
  set.one->behaviour = ToolBehaviour::kHang;
  auto agent = make_tool_agent({});
  const std::string text = call_text("one", 1);
  const auto turn = co_await with_timeout(seconds(3), agent->interpret(text, set.tools));
  EXPECT_FALSE(turn.has_value());
  EXPECT_EQ(set.one->running, 0);
}

CO_TEST(ToolAgent, LongResultsAreCut) {
  ToolSet set;
  set.one->result = std::string(100, 'a');
  auto agent = make_tool_agent({.max_result_bytes = 10});
  const Result<AgentTurn> turn = co_await agent->interpret(call_text("one", 1), set.tools);
  CO_ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->tool_results[0].content, "aaaaaaaaaa...(truncated)");
}

TEST(CutToolResult, ENV_09_KeepsTheEndThatWasAskedFor) {
  const std::string text = "Some long working out.\nFinal answer: Paris";
  EXPECT_EQ(cut_tool_result(text, 19, true), "(truncated)...Final answer: Paris");
  EXPECT_EQ(cut_tool_result(text, 19, false), "Some long working o...(truncated)");
  EXPECT_EQ(cut_tool_result("Final answer: Paris", 19, false), "Final answer: Paris");
}

TEST(CutToolResult, ENV_09_NeverSplitsACharacter) {
  const std::string text = "aé歪😀z";  // 1, 2, 3, 4 and 1 bytes
  EXPECT_EQ(cut_tool_result(text, 2, false), "a...(truncated)");
  EXPECT_EQ(cut_tool_result(text, 3, false), "aé...(truncated)");
  EXPECT_EQ(cut_tool_result(text, 9, false), "aé歪...(truncated)");
  EXPECT_EQ(cut_tool_result(text, 4, true), "(truncated)...z");
  EXPECT_EQ(cut_tool_result(text, 5, true), "(truncated)...😀z");
  EXPECT_EQ(cut_tool_result("\x80\x80\x80", 2, false), "...(truncated)");
}

TEST(ToolAgent, ENV_13_TimeoutsThatAreNoNumbersOfSecondsAreRefused) {
  for (double timeout : {std::numeric_limits<double>::quiet_NaN(), -1.0, 0.0}) {
    EXPECT_NE(input_error_of([&] {
                make_tool_agent({.tool_timeout_seconds = timeout});
              }).find("tool_timeout_seconds"),
              std::string::npos);
  }
  EXPECT_NO_THROW(make_tool_agent({.tool_timeout_seconds = std::numeric_limits<double>::infinity()}));
  EXPECT_NE(input_error_of([] { make_tool_agent({.max_parallel_calls = 0}); }).find("max_parallel_calls"),
            std::string::npos);
  EXPECT_NE(input_error_of([] { make_tool_agent({.max_result_bytes = 0}); }).find("max_result_bytes"),
            std::string::npos);
}

CO_TEST(ConversationAgent, TheWholeTextIsTheAnswer) {
  ToolSet set;
  auto agent = make_conversation_agent();
  const std::string text = "<think>\nhm\n</think>\n\n" + call_text("one", 1);
  const Result<AgentTurn> turn = co_await agent->interpret(text, set.tools);
  CO_ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->message.content, call_text("one", 1));
  EXPECT_EQ(turn->message.reasoning, "hm");
  EXPECT_TRUE(turn->tool_results.empty());
  EXPECT_EQ(set.one->calls, 0);
}

}  // namespace
}  // namespace stoker
