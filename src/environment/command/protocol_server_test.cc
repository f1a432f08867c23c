#include "environment/command/protocol_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "environment/testing/faulty_environment.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Serves a kind on a simulated loop; answers in the order in which they come.
class Served {
 public:
  explicit Served(const EnvironmentKind& kind, const std::string& name = "served")
      : server_(executor_, name, kind, test_pool(),
                [this](const std::string& line) { lines_.push_back(line); }) {}
  ~Served() { run(executor_, server_.finish()); }

  // The answers to some lines, after everything has come to rest.
  std::vector<std::string> ask(const std::vector<std::string>& lines) {
    lines_.clear();
    for (const std::string& line : lines) server_.take(line);
    executor_.run_until_idle();
    return lines_;
  }
  void greet() { ask({R"({"id":1,"method":"hello","params":{"protocol":{"min":1,"max":1}}})"}); }

 private:
  SimulatedExecutor executor_{1};
  std::vector<std::string> lines_;
  ProtocolServer server_;
};

constexpr const char* kReset =
    R"({"id":2,"method":"reset","params":{"episode":"a","task":{"id":"t","fields":{"prompt":"6*7?","answer":42}},"seed":7}})";

TEST(ProtocolServer, PlaysAnEpisodeOfANativeEnvironment) {
  auto kind = make_environment_kind("arithmetic", Json());
  Served served(*kind, "arithmetic");
  const std::string hello =
      served.ask({R"({"id":1,"method":"hello","params":{"protocol":{"min":1,"max":3}}})"}).at(0);
  const ProtocolMessage message = decode_message(hello);
  const Result<Greeting> greeting =
      decode_greeting(std::get<Json>(std::get<ProtocolAnswer>(message).content));
  ASSERT_TRUE(greeting.ok());
  EXPECT_EQ(greeting->environments.at(0).name, "arithmetic");
  EXPECT_THAT(greeting->rewards, ElementsAre("answer"));
  EXPECT_THAT(served.ask({R"({"id":9,"method":"tools","params":{"environment":"arithmetic"}})"}).at(0),
              HasSubstr("\"name\":\"calculator\""));
  EXPECT_THAT(served.ask({kReset}).at(0),
              HasSubstr(R"("messages":[{"role":"user","content":"6*7?"}],"done":false)"));
  EXPECT_EQ(
      served.ask(
          {R"({"id":3,"method":"call","params":{"episode":"a","tool":"calculator","arguments":{"expression":"6*7"}}})"}),
      std::vector<std::string>{R"({"id":3,"result":{"content":"42","is_error":false}})"});
  EXPECT_EQ(served
                .ask({R"({"id":4,"method":"step","params":{"episode":"a","turn":1,"text":"42"}})",
                      R"({"id":5,"method":"close","params":{"episode":"a"}})",
                      R"({"id":6,"method":"close","params":{"episode":"a"}})"})
                .size(),
            3u);
  EXPECT_EQ(
      served.ask(
          {R"({"id":7,"method":"score","params":{"reward":"answer","task":{"id":"t","fields":{"answer":42}},"messages":[{"role":"user","content":"6*7?"},{"role":"assistant","content":"It is 42."}]}})"}),
      std::vector<std::string>{R"({"id":7,"result":{"reward":1.0,"success":true}})"});
}

TEST(ProtocolServer, WhatIsWrongIsAnsweredAndEndsNothing_ENV_07) {
  auto kind = make_environment_kind("arithmetic", Json());
  Served served(*kind);
  EXPECT_THAT(served.ask({R"({"id":1,"method":"ping"})"}).at(0), HasSubstr("not_greeted"));
  EXPECT_THAT(served.ask({R"({"id":1,"method":"hello","params":{"protocol":{"min":2,"max":2}}})"}).at(0),
              HasSubstr(R"("reason":"version")"));
  served.greet();
  EXPECT_THAT(served.ask({R"({"id":3,"method":)"}).at(0),
              HasSubstr(R"({"id":null,"error":{"class":"protocol","reason":"bad_json")"));
  EXPECT_THAT(served.ask({R"({"id":3})"}).at(0), HasSubstr("bad_request"));
  EXPECT_THAT(served.ask({R"({"id":4,"method":"dance"})"}).at(0), HasSubstr("unknown_method"));
  EXPECT_THAT(served.ask({R"({"id":5,"method":"step","params":{"episode":"x","turn":0,"text":""}})"}).at(0),
              HasSubstr(R"("class":"environment","reason":"unknown_episode")"));
  EXPECT_THAT(served.ask({R"({"id":6,"method":"reset","params":{"episode":"x"}})"}).at(0),
              HasSubstr("bad_params"));
  EXPECT_THAT(served.ask({R"({"id":7,"method":"step","params":{"episode":"x","turn":0,"text":""}})"}).at(0),
              HasSubstr("unknown_episode"));
  EXPECT_TRUE(served.ask({"", R"({"method":"cancel","params":{"id":99}})"}).empty());
  EXPECT_THAT(served.ask({R"({"id":8,"method":"ping"})"}).at(0), HasSubstr(R"("episodes":0)"));
}

TEST(ProtocolServer, CancelsAndClosesWhateverHappens) {
  testing::FaultyEnvironmentKind kind([](const TaskRow&, int32_t nth) {
    return testing::FaultPlan{.step = nth == 0 ? testing::Fault::kHang : testing::Fault::kThrow};
  });
  {
    Served served(kind);
    served.greet();
    served.ask({kReset});
    EXPECT_TRUE(
        served.ask({R"({"id":3,"method":"step","params":{"episode":"a","turn":0,"text":""}})"}).empty());
    EXPECT_EQ(
        served.ask({R"({"method":"cancel","params":{"id":3}})"}),
        std::vector<std::string>{
            R"({"id":3,"error":{"class":"cancelled","reason":"cancelled","message":"The request was cancelled."}})"});
    served.ask({R"({"id":4,"method":"close","params":{"episode":"a"}})"});
    served.ask({kReset});
    EXPECT_THAT(served.ask({R"({"id":5,"method":"step","params":{"episode":"a","turn":0,"text":""}})"}).at(0),
                HasSubstr(R"("reason":"exception","message":"planted in step")"));
  }
  EXPECT_EQ(kind.counts().resets, 2);
  EXPECT_EQ(kind.counts().closes, 2);
  EXPECT_EQ(kind.counts().closed_again + kind.counts().used_closed + kind.counts().lost_unclosed, 0);
}

}  // namespace
}  // namespace stoker
