#include "cli/env_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "cli/env_check.h"
#include "text/json_schema.h"

namespace stoker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EnvCommand : public ::testing::Test {
 protected:
  // A run file whose rewards come from a few lines of shell.
  RunConfig shell_reward(const std::string& script) {
    RunConfig config;
    config.reward.command.process.command = {"/bin/sh", "-c", script};
    config.reward.command.process.restarts = 0;
    return config;
  }

  TestFolder folder_;
  InterruptWatch interrupts_;
};

TEST_F(EnvCommand, ANativeEnvironmentHasNoProblems) {
  const EnvironmentReport report = check_environment_of(RunConfig(), 4, interrupts_);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.facts, Contains(HasSubstr("4 tasks, each played twice")));
  ASSERT_FALSE(report.figures.empty());
  EXPECT_EQ(report.figures[0].name, "close_median");
  EXPECT_THAT(report.text(), HasSubstr("Nothing stands in the way of training."));
}

TEST_F(EnvCommand, WhatWouldBreakInTrainingIsTold) {
  // The reward counts its calls, so that the two episodes of each task disagree.
  const RunConfig config = shell_reward(R"(
read -r line
echo '{"id":1,"result":{"protocol":1,"rewards":[{"name":"count"}]}}'
number=1
while read -r line; do
  number=$((number + 1))
  case $line in
    *'"ping"'*) echo "{\"id\":$number,\"result\":{\"episodes\":2,\"stuck\":1}}" ;;
    *) echo "{\"id\":$number,\"result\":{\"reward\":$number}}" ;;
  esac
done)");
  const EnvironmentReport report = check_environment_of(config, 2, interrupts_);
  EXPECT_THAT(report.problems, Contains(HasSubstr("had different rewards")));
  EXPECT_THAT(report.problems, Contains(HasSubstr("still has 2 episodes open")));
  EXPECT_THAT(report.problems, Contains(HasSubstr("still hold a thread")));
  EXPECT_THAT(report.text(), HasSubstr("4 things to mend before training."));
}

TEST_F(EnvCommand, WhatCannotBeStartedIsAnError) {
  EXPECT_THROW(check_environment_of(shell_reward("exit 1"), 1, interrupts_), Error);
}

TEST(RandomValue, FitsTheSchema) {
  RandomStream random(StreamKey{.purpose = RandomPurpose::kData});
  for (const char* text :
       {R"({"type":"object","properties":{"a":{"type":"integer","minimum":5},"b":{"enum":["x","y"]},)"
        R"("c":{"type":"array","items":{"type":"number"},"minItems":1}},"required":["a","c"],)"
        R"("additionalProperties":false})",
        R"({"anyOf":[{"type":"null"},{"type":"boolean"}]})", R"({"const":{"a":1}})",
        R"({"type":["string","null"]})", R"({"type":"object"})"}) {
    const JsonSchema schema(Json::parse(text), "schema");
    for (int i = 0; i < 50; ++i) {
      const Json value = random_value(schema.schema(), random);
      EXPECT_EQ(schema.validate(value), std::nullopt) << text << " " << value.dump();
    }
  }
}

}  // namespace
}  // namespace stoker
