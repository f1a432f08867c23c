#include "text/tool_call_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ParsedTurn parse(std::string_view text) { return make_tool_call_parser("hermes")->parse(text); }

// "name{arguments}" of a call without a problem, "! position" of one with.
std::string show(const ParsedCall& call) {
  if (call.problem) return "! " + std::to_string(call.problem->position);
  return call.call.name + call.call.arguments.dump();
}
std::vector<std::string> calls(std::string_view text) {
  std::vector<std::string> result;
  for (const ParsedCall& call : parse(text).calls) result.push_back(show(call));
  return result;
}
using Calls = std::vector<std::string>;

TEST(HermesParser, TextWithoutCallsIsContent) {
  ParsedTurn turn = parse("The answer is 1 < 2.\n");
  EXPECT_EQ(turn.content, "The answer is 1 < 2.");
  EXPECT_TRUE(turn.calls.empty());
  EXPECT_TRUE(turn.problems.empty());
  EXPECT_EQ(parse(""), ParsedTurn());
}

TEST(HermesParser, OneCallWithTextAround) {
  std::string call =
      "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"37*48\"}}\n</tool_call>";
  ParsedTurn turn = parse("Let me see. " + call + " done");
  EXPECT_EQ(turn.content, "Let me see.  done");
  ASSERT_EQ(turn.calls.size(), 1u);
  EXPECT_EQ(turn.calls[0].call.name, "calculator");
  EXPECT_EQ(turn.calls[0].call.arguments, Json::object({{"expression", "37*48"}}));
  EXPECT_EQ(turn.calls[0].call.raw, call);
  EXPECT_FALSE(turn.calls[0].problem);
}

TEST(HermesParser, TCP_01_AClosingTagInsideAStringIsText) {
  ParsedTurn turn = parse(
      "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"n.md\", \"text\": \"stop at "
      "</tool_call> "
      "here\"}}\n</tool_call>");
  ASSERT_EQ(turn.calls.size(), 1u);
  EXPECT_EQ(turn.calls[0].call.arguments.at("text"), Json("stop at </tool_call> here"));
  EXPECT_EQ(turn.content, "");
  EXPECT_TRUE(turn.problems.empty());
}

TEST(HermesParser, TCP_03_SeveralCallsInOneTurn) {
  std::string_view text =
      "<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": "
      "\"b\", "
      "\"arguments\": {\"y\": 2}}\n</tool_call>";
  EXPECT_EQ(calls(text), (Calls{"a{\"x\":1}", "b{\"y\":2}"}));
  EXPECT_EQ(parse(text).content, "");
}

TEST(HermesParser, TCP_05_EmptyArgumentsAndNumberTypesStay) {
  ParsedTurn turn = parse(
      "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"f\", "
      "\"arguments\": {\"n\": 123, \"s\": \"123\"}}\n</tool_call>");
  ASSERT_EQ(turn.calls.size(), 2u);
  EXPECT_EQ(show(turn.calls[0]), "now{}");
  EXPECT_EQ(turn.calls[1].call.arguments, Json::object({{"n", 123}, {"s", "123"}}));
}

TEST(HermesParser, TCP_07_ACallDraftedInThinkingIsNoCall) {
  ParsedTurn turn = parse(
      "<think>\nmaybe <tool_call>{\"name\": \"run\", \"arguments\": {\"c\": \"x=1\"}}</tool_call> "
      "works\n</think>\n\n"
      "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"c\": \"x=1\"}}\n</tool_call>");
  EXPECT_EQ(turn.calls.size(), 1u);
  EXPECT_THAT(turn.reasoning, HasSubstr("maybe <tool_call>"));
  EXPECT_EQ(turn.content, "");
}

TEST(HermesParser, ThinkingThatThePromptOpenedEndsAtItsTag) {
  ParsedTurn turn = parse(
      "draft <tool_call>{\"name\": \"run\", \"arguments\": {}}</tool_call>\n</think>\n\nDone </think> now");
  EXPECT_TRUE(turn.calls.empty());
  EXPECT_THAT(turn.reasoning, HasSubstr("draft"));
  EXPECT_EQ(turn.content, "Done </think> now");
}

TEST(HermesParser, ThinkingThatDoesNotEndIsAProblem) {
  ParsedTurn turn = parse("<think>\nhm <tool_call>{\"name\": \"run\", \"arguments\": {}}</tool_call>");
  EXPECT_TRUE(turn.calls.empty());
  ASSERT_EQ(turn.problems.size(), 1u);
  EXPECT_THAT(turn.problems[0].message, HasSubstr("</think>"));
}

TEST(HermesParser, TCP_09_ParametersIsAnAlias) {
  EXPECT_EQ(calls("<tool_call>{\"name\": \"write_file\", \"parameters\": {\"path\": \"a.txt\"}}</tool_call>"),
            Calls{"write_file{\"path\":\"a.txt\"}"});
  EXPECT_EQ(calls("<tool_call>{\"name\": \"f\", \"parameters\": {}, \"arguments\": {}}</tool_call>"),
            Calls{"! 11"});
}

TEST(HermesParser, ENV_01_BrokenJsonIsAProblemWithItsPlaceAndTheOtherCallsStay) {
  std::string good = "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  for (std::string bad :
       {R"({"name": "sh", "arguments": {"cmd": "ls" "x": 1}})", R"({"name": "sh", "arguments": {"cmd": "ls)",
        R"({"name": "sh", "arguments": {"cmd": "ls"})"}) {
    ParsedTurn turn = parse("<tool_call>" + bad + "</tool_call>\n" + good);
    ASSERT_EQ(turn.calls.size(), 2u) << bad;
    ASSERT_TRUE(turn.calls[0].problem) << bad;
    EXPECT_EQ(turn.calls[0].call.name, "sh");
    EXPECT_EQ(turn.calls[0].call.raw, "<tool_call>" + bad + "</tool_call>");
    EXPECT_GE(turn.calls[0].problem->position, 11 + bad.find("ls"));
    EXPECT_LT(turn.calls[0].problem->message.size(), 250u);
    EXPECT_EQ(show(turn.calls[1]), "g{}");
  }
  EXPECT_THAT(parse(R"(<tool_call>{"name": "sh", "arguments": {"cmd": "ls" "x": 1}}</tool_call>)")
                  .calls[0]
                  .problem->message,
              AllOf(HasSubstr("a comma or a closing bracket was expected"), HasSubstr("character 42")));
}

TEST(HermesParser, ENV_03_ATrailingCommaIsNeverRunWithEmptyArguments) {
  EXPECT_EQ(calls(R"(<tool_call>{"name": "delete", "arguments": {"path": "a.txt", }}</tool_call>)"),
            Calls{"! 61"});
}

TEST(HermesParser, CallsThatAreNoCallsSayWhy) {
  auto problem = [](std::string_view text) {
    ParsedTurn turn = parse(text);
    EXPECT_EQ(turn.calls.size(), 1u) << text;
    return turn.calls.at(0).problem.value_or(ParseProblem{0, "none"}).message;
  };
  EXPECT_THAT(problem("<tool_call>{\"arguments\": {}}</tool_call>"), HasSubstr("\"name\""));
  EXPECT_THAT(problem("<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>"), HasSubstr("\"name\""));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\"}</tool_call>"), HasSubstr("no \"arguments\""));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"),
              HasSubstr("found array"));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>"),
              HasSubstr("found string"));
  EXPECT_THAT(problem("<tool_call>f(1)</tool_call>"), HasSubstr("JSON object must follow"));
  EXPECT_THAT(problem("<tool_call>"), HasSubstr("cut off"));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\", \"arguments\": {}}"), HasSubstr("cut off"));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\", \"argum"), HasSubstr("the text ends"));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>"),
              HasSubstr("</tool_call> must follow"));
  EXPECT_THAT(problem("<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1e999}}</tool_call>"),
              HasSubstr("range"));
}

TEST(HermesParser, ABrokenCallEndsWhereTheNextOpens) {
  std::string_view text =
      "<tool_call>{\"name\": \"f\", <tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(calls(text), (Calls{"! 25", "g{}"}));
}

TEST(HermesParser, AClosingTagAloneIsAProblem) {
  ParsedTurn turn = parse("a </tool_call> b");
  EXPECT_EQ(turn.content, "a </tool_call> b");
  ASSERT_EQ(turn.problems.size(), 1u);
  EXPECT_EQ(turn.problems[0].position, 2u);
}

TEST(HermesParser, ArgumentsInAStringAreDecodedOnce) {
  EXPECT_EQ(calls(R"(<tool_call>{"name": "f", "arguments": "{\"a\": \"\\u00e9\"}"}</tool_call>)"),
            Calls{"f{\"a\":\"é\"}"});
}

TEST(HermesParser, DuplicateKeysAreReadAsPythonReadsThem) {
  EXPECT_EQ(calls(R"(<tool_call>{"name": "x", "name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>)"),
            Calls{"f{\"a\":2}"});
}

TEST(HermesParser, NothingIsLostOrInventedInDamagedText) {
  std::string good =
      "<think>\nsum\n</think>\n\nI call.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": "
      "\"<tool_call>\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";
  RandomStream random({.run_seed = 12});
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (size_t i = random.below(4); i > 0; --i) {
      size_t at = random.below(text.size());
      if (random.below(2) == 0) {
        text.erase(at, 1 + random.below(5));
      } else {
        text.insert(at, text.substr(random.below(text.size()), random.below(12)));
      }
      if (text.empty()) text = "x";
    }
    ParsedTurn turn = parse(text);
    for (const ParsedCall& call : turn.calls) {
      EXPECT_NE(text.find(call.call.raw), std::string::npos);
      if (call.problem) {
        EXPECT_LE(call.problem->position, text.size());
        EXPECT_FALSE(call.problem->message.empty());
      } else {
        EXPECT_FALSE(call.call.name.empty());
        EXPECT_TRUE(call.call.arguments.is_object());
      }
    }
  }
}

TEST(ToolCallParser, FormatsAreNamed) {
  std::string last;
  for (const ToolCallFormat& format : tool_call_formats()) {
    EXPECT_NE(make_tool_call_parser(format.name), nullptr);
    EXPECT_LT(last, format.name);
    EXPECT_FALSE(format.description.empty());
    last = format.name;
  }
  EXPECT_THAT(input_error_of([] { make_tool_call_parser("xml"); }),
              AllOf(HasSubstr("'xml'"), HasSubstr("hermes")));
  ParsedTurn turn = make_tool_call_parser("none")->parse("<think>\nhm\n</think>\n<tool_call>{}</tool_call>");
  EXPECT_EQ(turn.reasoning, "hm");
  EXPECT_EQ(turn.content, "<tool_call>{}</tool_call>");
  EXPECT_TRUE(turn.calls.empty());
}

TEST(ToolCallParser, ThinkingOfOtherFamiliesIsSeparated) {
  for (auto [open, close] :
       {std::pair{"<thinking>", "</thinking>"}, std::pair{"[THINK]", "[/THINK]"},
        std::pair{"<|channel>thought", "<channel|>"}, std::pair{"<seed:think>", "</seed:think>"}}) {
    std::string text = std::string(" ") + open + "\na </think b\n" + close + "\n done";
    ParsedTurn turn = make_tool_call_parser("mistral")->parse(text);
    EXPECT_EQ(turn.reasoning, "a </think b");
    EXPECT_EQ(turn.content, "done");
  }
}

TEST(ToolCallParser, TheStartOfThinkingCanBeSaid) {
  auto parser = make_tool_call_parser("hermes");
  std::string_view text =
      "draft <tool_call>{}</tool_call> </think>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}";
  ParsedTurn open = parser->parse(text, {.thinking = ThinkingStart::kOpen, .tools = {}});
  EXPECT_EQ(open, parser->parse(text));
  EXPECT_EQ(open.reasoning, "draft <tool_call>{}</tool_call> ");
  EXPECT_EQ(open.calls.size(), 1u);
  ParsedTurn closed = parser->parse(text, {.thinking = ThinkingStart::kClosed, .tools = {}});
  EXPECT_EQ(closed.reasoning, "");
  EXPECT_EQ(closed.content, "draft  </think>");
  EXPECT_EQ(closed.calls.size(), 2u);
  // What thinking the prompt had opened does not end is thinking.
  open = parser->parse("hm <tool_call>", {.thinking = ThinkingStart::kOpen, .tools = {}});
  EXPECT_EQ(open.reasoning, "hm <tool_call>");
  EXPECT_EQ(open.problems.size(), 1u);
}

TEST(TurnStream, AnnouncesWhileTheTextArrives) {
  auto stream = make_tool_call_parser("hermes")->stream({.thinking = ThinkingStart::kClosed, .tools = {}});
  using Kind = TurnDelta::Kind;
  using Deltas = std::vector<TurnDelta>;
  EXPECT_EQ(stream->feed("Hi \xC3"), (Deltas{{Kind::kContent, 0, "Hi "}}));
  EXPECT_EQ(stream->feed("\xA9! <tool"), (Deltas{{Kind::kContent, 0, "\xC3\xA9!"}}));
  EXPECT_EQ(stream->feed("_call> {\"name\": \"f\""), Deltas{});
  EXPECT_EQ(stream->feed(", \"arguments\": {\"a"),
            (Deltas{{Kind::kCallStarted, 0, "f"}, {Kind::kArguments, 0, "{\"a"}}));
  EXPECT_EQ(stream->feed("\": 1}"), (Deltas{{Kind::kArguments, 0, "\": 1}"}}));
  EXPECT_EQ(stream->feed("}</tool_call>"), (Deltas{{Kind::kCallEnded, 0, ""}}));
  TurnStream::End end = stream->finish();
  EXPECT_EQ(end.deltas, Deltas{});
  EXPECT_EQ(end.turn.calls.at(0).arguments_text, "{\"a\": 1}");
}

}  // namespace
}  // namespace stoker
