#include "text/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing/tokenizers.h"

namespace stoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Message parse(const char* json) { return message_from_json(Json::parse(json), "row 7"); }

TEST(Message, OpenAiMessagesSurviveTheTrip) {
  const char* conversation = R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 1+2?"},
    {"role": "assistant", "content": "", "reasoning_content": "add", "tool_calls": [
      {"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": "{\"expression\":\"1+2\"}"}}]},
    {"role": "tool", "content": "3", "tool_call_id": "call_1", "name": "calculator"},
    {"role": "assistant", "content": "3"}])";
  std::vector<Message> messages = messages_from_json(Json::parse(conversation), "row 7");
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[2].tool_calls[0].arguments, Json::object({{"expression", "1+2"}}));
  EXPECT_EQ(messages[2].reasoning, "add");
  EXPECT_EQ(messages[3].tool_call_id, "call_1");
  EXPECT_EQ(messages_to_json(messages), Json::parse(conversation));
  EXPECT_EQ(messages_from_json(messages_to_json(messages), "row 7"), messages);
}

TEST(Message, ContentMayBeNullOrParts) {
  EXPECT_EQ(parse(R"({"role": "assistant", "content": null})").content, "");
  EXPECT_EQ(parse(R"({"role": "assistant"})").content, "");
  EXPECT_EQ(
      parse(R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})")
          .content,
      "ab");
  EXPECT_EQ(parse(R"({"role": "developer", "content": "x"})").role, Role::kSystem);
}

TEST(Message, TPL_09_ArgumentsInAStringAreDecodedOnce) {
  auto arguments = [](const char* text) {
    Json call = Json::object({{"function", Json::object({{"name", "f"}, {"arguments", Json::parse(text)}})}});
    Json message = Json::object({{"role", "assistant"}, {"tool_calls", Json::Array{call}}});
    return message_from_json(message, "row 7").tool_calls[0].arguments;
  };
  EXPECT_EQ(arguments(R"("{\"city\": \"Oslo\"}")"), Json::object({{"city", "Oslo"}}));
  EXPECT_EQ(arguments(R"({"city": "Oslo"})"), Json::object({{"city", "Oslo"}}));
  EXPECT_EQ(arguments(R"("not json")"), Json("not json"));
  EXPECT_EQ(arguments(R"("[1]")"), Json("[1]"));
  EXPECT_EQ(arguments("null"), Json::object());
}

TEST(Message, NamesWhatIsWrong) {
  auto refusal = [](const char* json) {
    return input_error_of([&] { messages_from_json(Json::parse(json), "data.jsonl:3"); });
  };
  EXPECT_THAT(refusal("{}"), AllOf(HasSubstr("data.jsonl:3"), HasSubstr("list")));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": "x"}, 3])"), HasSubstr("message 1"));
  EXPECT_THAT(refusal(R"([{"role": "robot"}])"), HasSubstr("robot"));
  EXPECT_THAT(refusal(R"([{"content": "x"}])"), HasSubstr("'role'"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": 3}])"), HasSubstr("'content'"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": [{"type": "image_url"}]}])"), HasSubstr("no text"));
  EXPECT_THAT(refusal(R"([{"role": "assistant", "tool_calls": {}}])"), HasSubstr("'tool_calls'"));
  EXPECT_THAT(refusal(R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])"),
              HasSubstr("no function name"));
  EXPECT_THAT(
      refusal(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 3}}]}])"),
      HasSubstr("arguments of 'f'"));
}

TEST(ToolSchema, OpenAiToolsSurviveTheTrip) {
  Json json = Json::parse(R"({"type": "function", "function": {"name": "f", "description": "d",
                              "parameters": {"type": "object", "properties": {}}}})");
  ToolSchema tool = tool_schema_from_json(json, "tools.json");
  EXPECT_EQ(tool.name, "f");
  EXPECT_EQ(tool_schema_to_json(tool), json);
  EXPECT_EQ(tool_schema_from_json(json.at("function"), "tools.json"), tool);
  EXPECT_THAT(input_error_of([] { tool_schema_from_json(Json::object(), "tools.json"); }),
              HasSubstr("tools.json"));
  json = Json::object({{"name", "f"}, {"parameters", 3}});
  EXPECT_THAT(input_error_of([&] { tool_schema_from_json(json, "tools.json"); }), HasSubstr("'parameters'"));
}

}  // namespace
}  // namespace stoker
