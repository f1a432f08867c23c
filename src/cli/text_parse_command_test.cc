#include "cli/text_parse_command.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/json.h"

namespace stoker {
namespace {

std::string parse_lines(const std::string& input, const char* format = "hermes", bool stream = false) {
  std::istringstream in(input);
  std::ostringstream out;
  parse_turns({.format = format, .input = {}, .stream = stream}, in, out);
  return out.str();
}

std::string refusal(const std::string& input, const char* format = "hermes") {
  try {
    parse_lines(input, format);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(TextParse, WritesAnObjectALineWithNumbersAsWritten) {
  std::string line =
      R"({"text": "<think>\nhm\n</think>Hi <tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1.50,\n\"m\": 123456789012345678901}}</tool_call>"})";
  EXPECT_EQ(
      parse_lines(line + "\n\n" + R"({"text": "x"})"),
      R"({"reasoning": "hm", "content": "Hi", "calls": [{"name": "f", "arguments": {"n": 1.50, "m": 123456789012345678901}, "problem": null}], "problems": []})"
      "\n"
      R"({"reasoning": "", "content": "x", "calls": [], "problems": []})"
      "\n");
}

TEST(TextParse, CallsAreHeldAgainstTheTools) {
  auto problem_of = [](const char* call) {
    Json line =
        Json::object({{"text", std::string("[") + call + "]"},
                      {"tools", Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
                                   {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}}])")}});
    Json out = Json::parse(parse_lines(line.dump(), "pythonic"));
    const Json& problem = out.at("calls").as_array().at(0).at("problem");
    return problem.is_null() ? "" : problem.at("message").as_string();
  };
  EXPECT_EQ(problem_of("f(a=1)"), "");
  EXPECT_EQ(problem_of("f(a='x')"), "arguments.a must be an integer, but is the string \"x\".");
  EXPECT_EQ(problem_of("g(a=1)"), "There is no tool named \"g\"; the tools are: f.");
}

TEST(TextParse, AStreamShowsWhatWasAnnouncedAndEndsTheSame) {
  std::string line =
      R"({"thinking": "closed", "text": "é <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"é\", \"a\": 2}}</tool_call>"})";
  Json whole = Json::parse(parse_lines(line));
  Json streamed = Json::parse(parse_lines(line, "hermes", true));
  EXPECT_EQ(whole.at("calls").as_array().at(0).at("arguments"), Json::object({{"a", 2}}));
  std::string content, arguments;
  for (const Json& delta : streamed.at("deltas").as_array()) {
    if (const Json* text = delta.find("content")) content += text->as_string();
    if (const Json* text = delta.find("arguments")) arguments += text->as_string();
  }
  EXPECT_EQ(content, "é");
  EXPECT_EQ(arguments, R"({"a": "é", "a": 2})");
  streamed.as_object().pop_back();
  EXPECT_EQ(streamed, whole);
}

TEST(TextParse, FormatsAreListedAndWrongInputNamesItsLine) {
  std::string list = parse_lines("", "list");
  for (const char* name :
       {"hermes", "qwen3_coder", "llama3_json", "pythonic", "mistral", "deepseek", "gemma"}) {
    EXPECT_NE(list.find(std::string("{\"format\": \"") + name), std::string::npos) << name;
  }
  EXPECT_NE(refusal("{\"text\": \"x\"}", "xml").find("hermes"), std::string::npos);
  EXPECT_NE(refusal("{\"text\": \"x\"}\n{\"text\": 3}").find("Line 2"), std::string::npos);
  EXPECT_NE(refusal("nonsense").find("Line 1"), std::string::npos);
  EXPECT_NE(refusal(R"({"text": "", "thinking": true})").find("thinking"), std::string::npos);
  EXPECT_NE(
      refusal(R"({"text": "", "tools": [{"name": "f", "parameters": {"type": "float"}}]})").find("float"),
      std::string::npos);
}

}  // namespace
}  // namespace stoker
