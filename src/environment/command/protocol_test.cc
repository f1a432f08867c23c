#include "environment/command/protocol.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "base/file.h"

namespace stoker {
namespace {

ProtocolError error_in(const char* line) {
  return std::get<ProtocolError>(std::get<ProtocolAnswer>(decode_message(line)).content);
}

TEST(Protocol, EveryLineOfTheExampleIsUnderstood) {
  int answers = 0, logs = 0;
  std::string hello;
  for_each_line(
      STOKER_SOURCE_DIR "/docs/protocol_example.txt", [&](std::string_view line, size_t number, bool) {
        if (line.starts_with("> ") && line.find("\"hello\"") != std::string_view::npos)
          hello = line.substr(2);
        if (!line.starts_with("< ")) return true;
        const ProtocolMessage message = decode_message(line.substr(2));
        EXPECT_FALSE(std::holds_alternative<StrayLine>(message)) << "line " << number << ": " << line;
        answers += std::holds_alternative<ProtocolAnswer>(message);
        logs += std::holds_alternative<ProtocolLog>(message);
        return true;
      });
  EXPECT_GT(answers, 20);
  EXPECT_GE(logs, 1);
  EXPECT_EQ(request_line(2, "hello", hello_params(16777216)), hello);
}

TEST(Protocol, RequestsAreOneLine) {
  EXPECT_EQ(request_line(7, "step", Json::object({{"text", "a\nb"}})),
            R"({"id":7,"method":"step","params":{"text":"a\nb"}})");
  EXPECT_EQ(request_line(1, "ping", Json()), R"({"id":1,"method":"ping"})");
  EXPECT_EQ(cancel_line(7), R"({"method":"cancel","params":{"id":7}})");
}

TEST(Protocol, WhatIsNoMessageIsStray_ENV_07) {
  for (const char* line :
       {"hello", "{\"id\":1", "[1]", "7", "null", "{}", "{\"method\":\"dance\"}", "{\"id\":1}",
        "{\"id\":\"1\",\"result\":{}}", "{\"id\":-1,\"result\":{}}", "{\"id\":1.5,\"result\":{}}",
        "{\"id\":1,\"result\":3}", "{\"id\":1,\"error\":\"x\"}", "{\"id\":1,\"result\":null}",
        "{\"method\":\"log\"}", "{\"id\":1,\"result\":{\"x\":NaN}}"}) {
    EXPECT_TRUE(std::holds_alternative<StrayLine>(decode_message(line))) << line;
  }
  EXPECT_TRUE(std::holds_alternative<ProtocolAnswer>(decode_message("{\"id\":null,\"result\":{}}")));
}

TEST(Protocol, ErrorsBecomeFailuresOfTheirClass) {
  EXPECT_EQ(error_in(R"({"id":1,"error":{"class":"tool","reason":"away","message":"m"}})").failure(),
            (Failure{FailureClass::kTool, "away", "m"}));
  EXPECT_EQ(error_in(R"({"id":1,"error":{"class":"protocol","reason":"bad_params","message":"m"}})")
                .failure()
                .name(),
            "infrastructure.protocol");
  EXPECT_EQ(error_in(R"({"id":1,"error":{"class":"environment","reason":"Bad Reason!"}})").failure().name(),
            "environment.unnamed");
  EXPECT_EQ(error_in(R"({"id":1,"error":{}})").failure().name(), "infrastructure.protocol");
  EXPECT_EQ(error_in((R"({"id":1,"error":{"class":"tool","reason":"a","message":")" + std::string(9000, 'x') +
                      "\"}}")
                         .c_str())
                .message.size(),
            4096u);
}

TEST(Protocol, AnswersThatDoNotFitAreFailures) {
  auto name = [](const auto& result) { return result ? std::string("fine") : result.failure().name(); };
  EXPECT_EQ(name(decode_reset(Json::parse(R"({"messages":[{"role":"user","content":"x"}]})"))), "fine");
  EXPECT_EQ(name(decode_reset(Json::parse(R"({"messages":[],"done":true})"))), "fine");
  for (const char* result : {R"({"messages":[]})", R"({"messages":3})", R"({"messages":[{"role":"king"}]})",
                             "{}", R"({"messages":[],"done":true,"tools":[{"function":{}}]})"}) {
    EXPECT_EQ(name(decode_reset(Json::parse(result))), "infrastructure.protocol") << result;
  }
  EXPECT_EQ(name(decode_step(Json::parse(R"({"messages":[],"done":true,"truncated":true})"))),
            "limit.environment");
  EXPECT_EQ(name(decode_step(Json::parse(R"({"messages":[]})"))), "infrastructure.protocol");
  EXPECT_EQ(name(decode_call(Json::parse(R"({"content":5})"))), "infrastructure.protocol");
  EXPECT_EQ(name(decode_score(Json::parse("{}"))), "infrastructure.protocol");
  EXPECT_EQ(name(decode_score(Json::parse(R"({"reward":"much"})"))), "infrastructure.protocol");
  EXPECT_FALSE(decode_score(Json::parse(R"({"reward":null})"))->reward.has_value());
  EXPECT_EQ(name(decode_greeting(Json::parse(R"({"protocol":2})"))), "infrastructure.protocol");
  EXPECT_EQ(name(decode_greeting(Json::parse(R"({"protocol":1,"limits":{"line_bytes":10}})"))),
            "infrastructure.protocol");
  EXPECT_EQ(name(decode_snapshot(Json::parse("{}"))), "infrastructure.protocol");
  EXPECT_TRUE(decode_snapshot(Json::parse(R"({"state":null})"))->is_null());
  EXPECT_FALSE(decode_restore(Json::parse("{}"))->has_value());
  EXPECT_EQ(name(decode_restore(Json::parse(R"({"tools":3})"))), "infrastructure.protocol");
  const std::string two = R"({"function":{"name":"a","parameters":{}}})";
  EXPECT_EQ(name(decode_tools(Json::parse("{\"tools\":[" + two + "," + two + "]}"))),
            "infrastructure.protocol");
}

}  // namespace
}  // namespace stoker
