#include "environment/conversation_file.h"
#include "base/testing/test_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRow =
    R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],"source":"x"})";

class ConversationFileTest : public ::testing::Test {
 protected:
  std::string error_of(const std::string& content, size_t max_row_bytes = 1000) {
    try {
      ConversationFile(folder_.write("warm_up.jsonl", content), max_row_bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      std::string message = error.what();
      size_t at = message.find("warm_up.jsonl");
      EXPECT_NE(at, std::string::npos) << message;
      return message.substr(at == std::string::npos ? 0 : at);
    }
    return "";
  }

  TestFolder folder_;
};

TEST_F(ConversationFileTest, ReadsMessages) {
  std::string call =
      R"({"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":null,"tool_calls":)"
      R"([{"type":"function","id":"1","function":{"name":"calculator","arguments":"{\"expression\":\"2+2\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"4"},{"role":"assistant","content":"4"}]})";
  ConversationFile file(folder_.write("warm_up.jsonl", std::string(kRow) + "\n" + call + "\n"));
  ASSERT_EQ(file.size(), 2u);
  std::vector<Message> messages = file.conversation(0).messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].content, "Hello");
  messages = file.conversation(1).messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].tool_calls[0].arguments.at("expression").as_string(), "2+2");
}

TEST_F(ConversationFileTest, CKP_07_LinesEndAtLineFeedsOnly) {
  std::string row = R"({"messages":[{"role":"assistant","content":"a)"
                    "\u2028"
                    "b"
                    "\u0085"
                    R"(c"}]})"
                    "\r\n";
  ConversationFile file(
      folder_.write("warm_up.jsonl", "\xEF\xBB\xBF" + row + " \n\n" + row.substr(0, row.size() - 1)));
  ASSERT_EQ(file.size(), 2u);
  EXPECT_EQ(file.conversation(0).messages[0].content, "a\u2028b\u0085c");
  EXPECT_EQ(file.conversation(1).messages, file.conversation(0).messages);
}

TEST_F(ConversationFileTest, BrokenRowsAreNamed) {
  const std::string good = std::string(kRow) + "\n";
  EXPECT_EQ(
      error_of(good + "\n{\"messages\": \n"),
      "warm_up.jsonl, line 3: the text ends in the middle of a value at column 14; each line must be one "
      "JSON object.");
  EXPECT_EQ(error_of(good + "[1]\n"), "warm_up.jsonl, line 2: the row must be a JSON object, but is array.");
  EXPECT_EQ(error_of("{\"message\":[]}\n"),
            "warm_up.jsonl, line 1: the row has no \"messages\"; give it a list of messages.");
  EXPECT_THAT(error_of("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n"),
              HasSubstr("has no assistant message"));
  EXPECT_THAT(error_of("{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}\n"), HasSubstr("line 1"));
  EXPECT_EQ(error_of(""), "warm_up.jsonl holds no rows; give it one JSON object a line.");
  EXPECT_EQ(error_of("\n \n"), "warm_up.jsonl holds no rows; give it one JSON object a line.");
  EXPECT_EQ(
      error_of(good + std::string(1001, 'x') + "\n"),
      "warm_up.jsonl, line 2: the row has 1001 bytes, more than max_row_bytes = 1000; shorten it or raise "
      "the limit.");
  EXPECT_THROW(ConversationFile(folder_ / "missing.jsonl"), Error);
}

}  // namespace
}  // namespace stoker
