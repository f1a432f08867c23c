#include "environment/registry.h"

#include "environment/environment_config.h"
#include "environment/testing/test_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace stoker {
namespace {

using ::testing::HasSubstr;

TEST(Registry, KnowsItsKindsInOrder) {
  std::vector<std::string> names = environment_kind_names();
  EXPECT_THAT(names, ::testing::ElementsAre("arithmetic", "command", "dataset", "frozen_lake", "gsm8k",
                                            "question_answering", "word_problems"));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    if (name == "command") continue;  // needs a command
    auto kind = make_environment_kind(name, Json::object());
    EXPECT_NE(kind->make(test_pool()), nullptr);
    EXPECT_EQ(kind->rewards().empty(), name == "dataset");     // it has those that `match` names
    EXPECT_NE(make_environment_kind(name, nullptr), nullptr);  // a run file without a table
  }
}

TEST(Registry, UnknownKindsAreRefusedWithTheKnownOnes) {
  try {
    make_environment_kind("arithmetics", Json::object());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(),
                 "There is no environment \"arithmetics\" (did you mean \"arithmetic\"?); the known ones are "
                 "arithmetic, command, dataset, frozen_lake, gsm8k, question_answering, word_problems.");
  }
  EXPECT_THROW(environment_kind_documentation("x"), Error);
}

TEST(Registry, DocumentsEveryOption) {
  EXPECT_THAT(environment_kind_documentation("arithmetic"), HasSubstr("`evaluation_size`"));
  EXPECT_THAT(environment_kind_documentation("question_answering"), HasSubstr("`train_file`"));
}

// A kind without demonstrations says so.
TEST(Registry, DemonstrationsAreOptional) {
  EXPECT_EQ(make_environment_kind("question_answering", Json::object())->demonstration(0, 1).has_value(),
            false);
  EXPECT_EQ(make_environment_kind("arithmetic", Json::object())->demonstration(0, 1).has_value(), true);
}

TEST(EnvironmentConfig, ReadsTheSectionOfEachKind) {
  EnvironmentConfig config;
  ConfigReader reader(config);
  reader.read_text("kind = \"arithmetic\"\n[arithmetic]\nevaluation_size = 17\n", "run.toml");
  EXPECT_EQ(config.make()->evaluation_tasks()->epoch_size(), 17u);
  EnvironmentConfig copy = config;
  reader.set("arithmetic.evaluation_size=18");
  EXPECT_EQ(make_environment_kind(config)->evaluation_tasks()->epoch_size(), 18u);
  EXPECT_EQ(copy.make()->evaluation_tasks()->epoch_size(), 17u);
  copy = config;
  EXPECT_EQ(copy.make()->evaluation_tasks()->epoch_size(), 18u);
  EXPECT_THAT(reader.dump(), HasSubstr("evaluation_size = 18  # command line"));
  for (const std::string& name : environment_kind_names()) {
    EXPECT_THAT(reader.documentation(), HasSubstr("`" + name + "."));
  }
}

TEST(EnvironmentConfig, WrongKindsAndKeysAreNamed) {
  EnvironmentConfig config;
  ConfigReader reader(config);
  auto message = [&](const char* text) -> std::string {
    try {
      reader.read_text(text, "run.toml");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("kind = \"arithmetics\""), HasSubstr("did you mean \"arithmetic\"?"));
  EXPECT_THAT(message("[arithmetic]\nevaluation_sise = 1"),
              HasSubstr("run.toml, line 2: there is no key arithmetic.evaluation_sise; did you mean "
                        "arithmetic.evaluation_size?"));
  config.kind = "chess";
  EXPECT_THROW(config.make(), Error);
}

}  // namespace
}  // namespace stoker
