#include "base/config.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_folder.h"

namespace stoker {
namespace {

using testing::HasSubstr;

struct OptimizerConfig {
  double learning_rate = 5e-4;
  std::string schedule = "linear";
  std::vector<double> betas = {0.9, 0.95};

  template <typename V>
  void for_each_field(V& visit) {
    visit("learning_rate", learning_rate, "Peak learning rate.", at_least(0));
    visit("schedule", schedule, "How the rate falls.", one_of({"constant", "linear", "cosine"}));
    visit("betas", betas, "Decay of the two moments.", between(0, 1));
  }
};

struct ToolConfig {
  double timeout = 5;
  double episode_limit = std::numeric_limits<double>::infinity();
  std::vector<std::string> names = {"calculator"};

  template <typename V>
  void for_each_field(V& visit) {
    visit("timeout", timeout, "Seconds a call may take.", above(0));
    visit("episode_limit", episode_limit, "Seconds an episode may take; inf: no limit.",
          above_or_infinite(0));
    visit("names", names, "Tools on offer | any order.");
  }
};

struct RolloutConfig {
  int64_t max_staleness = 2;
  int group_size = 8;
  bool shuffle = true;
  ToolConfig tool;

  template <typename V>
  void for_each_field(V& visit) {
    visit("max_staleness", max_staleness, "Largest lag in updates.", at_least(0));
    visit("group_size", group_size, "Samples per task.", at_least(1));
    visit("shuffle", shuffle, "Draw tasks in random order.");
    visit.section("tool", tool, "Limits of tools.");
  }
};

struct RunConfig {
  std::string model = "model";
  OptimizerConfig optimizer;
  RolloutConfig rollout;

  template <typename V>
  void for_each_field(V& visit) {
    visit("model", model, "Model directory.");
    visit.section("optimizer", optimizer, "AdamW.");
    visit.section("rollout", rollout, "Episodes.");
  }
};

// The sentence of the error that reading `text` as run.toml raises; empty when there is none.
std::string file_error(std::string_view text) {
  RunConfig config;
  ConfigReader reader(config);
  try {
    reader.read_text(text, "run.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

std::string override_error(std::string_view assignment) {
  RunConfig config;
  ConfigReader reader(config);
  try {
    reader.set(assignment);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(Config, ReadsEveryType) {
  RunConfig config;
  ConfigReader reader(config);
  reader.read_text(
      "model = \"runs/a b\"\n"
      "[optimizer]\nlearning_rate = 1\nschedule = 'cosine'\nbetas = [0.5, 1]\n"
      "[rollout]\nmax_staleness = 9007199254740993\ngroup_size = 4\nshuffle = false\n"
      "tool = {timeout = 0.5, names = [\"a\", \"b\"]}\n",
      "run.toml");
  EXPECT_EQ(config.model, "runs/a b");
  EXPECT_EQ(config.optimizer.learning_rate, 1.0);
  EXPECT_EQ(config.optimizer.schedule, "cosine");
  EXPECT_THAT(config.optimizer.betas, testing::ElementsAre(0.5, 1.0));
  EXPECT_EQ(config.rollout.max_staleness, 9007199254740993);
  EXPECT_EQ(config.rollout.group_size, 4);
  EXPECT_FALSE(config.rollout.shuffle);
  EXPECT_EQ(config.rollout.tool.timeout, 0.5);
  EXPECT_THAT(config.rollout.tool.names, testing::ElementsAre("a", "b"));
}

TEST(Config, CFG_01_UnknownKeysAreRefusedWithTheNearestName) {
  EXPECT_EQ(file_error("[rollout]\nmax_stalness = 2\n"),
            "run.toml, line 2: there is no key rollout.max_stalness; did you mean rollout.max_staleness?");
  EXPECT_EQ(override_error("rollout.max_stalness=2"),
            "command line: there is no key rollout.max_stalness; did you mean rollout.max_staleness?");
  EXPECT_EQ(file_error("[optimiser]\n"),
            "run.toml, line 1: there is no section optimiser; did you mean optimizer?");
  // A value in a place that does not own it: the owner is named.
  EXPECT_EQ(file_error("[rollout]\nlearning_rate = 1e-3\n"),
            "run.toml, line 2: there is no key rollout.learning_rate; did you mean optimizer.learning_rate?");
  EXPECT_THAT(file_error("max_stalness = 2\n"), HasSubstr("did you mean rollout.max_staleness?"));
  EXPECT_THAT(
      file_error("entirely_different = 2\n"),
      HasSubstr(
          "there is no key entirely_different; the keys of the top level are model, optimizer, rollout."));
}

TEST(Config, CFG_05_LastOneWinsAndTheDumpShowsTheOrigin) {
  for (bool file : {false, true}) {
    for (bool command_line : {false, true}) {
      RunConfig config;
      ConfigReader reader(config);
      if (file) reader.read_text("[rollout]\n\ngroup_size = 2", "run.toml");
      if (command_line) reader.set("rollout.group_size=4");
      EXPECT_EQ(config.rollout.group_size, command_line ? 4 : file ? 2 : 8);
      std::string origin = command_line ? "command line" : file ? "run.toml, line 3" : "default";
      EXPECT_THAT(reader.dump(),
                  HasSubstr(fmt::format("group_size = {}  # {}\n", config.rollout.group_size, origin)));
      EXPECT_EQ(reader.describe("rollout.group_size"), "rollout.group_size (" + origin + ")");
    }
  }
  RunConfig config;
  ConfigReader reader(config);
  reader.set("rollout.group_size=4");
  reader.set("rollout.group_size=5");
  EXPECT_EQ(config.rollout.group_size, 5);
}

TEST(Config, ENV_13_TimesThatAreNoNumbersOfSecondsAreRefused) {
  for (const char* value : {"inf", "+inf", "-inf", "nan", "-1", "0", "1e400", "\"30s\"", "true", "30s", ""}) {
    std::string line = std::string("[rollout.tool]\ntimeout = ") + value + "\n";
    EXPECT_THAT(file_error(line), HasSubstr("run.toml, line 2: ")) << value;
    EXPECT_THAT(override_error(std::string("rollout.tool.timeout=") + value),
                HasSubstr("command line: rollout.tool.timeout must be"))
        << value;
  }
  EXPECT_EQ(file_error("[rollout.tool]\ntimeout = -1\n"),
            "run.toml, line 2: rollout.tool.timeout must be above 0, but is -1.");
  EXPECT_EQ(file_error("[rollout.tool]\ntimeout = nan\n"),
            "run.toml, line 2: rollout.tool.timeout must be a finite number, but is nan.");
  EXPECT_EQ(file_error("[rollout.tool]\ntimeout = \"30s\"\n"),
            "run.toml, line 2: rollout.tool.timeout must be a number, but is the string \"30s\".");
  EXPECT_EQ(file_error("[rollout.tool]\nepisode_limit = inf\n"), "");
  EXPECT_THAT(file_error("[rollout.tool]\nepisode_limit = -inf\n"), HasSubstr("finite"));
}

TEST(Config, WrongTypesAndRangesNameKeyAndLine) {
  EXPECT_EQ(file_error("[rollout]\ngroup_size = 2.0\n"),
            "run.toml, line 2: rollout.group_size must be an integer, but is the number 2.0.");
  EXPECT_EQ(file_error("[rollout]\ngroup_size = 0\n"),
            "run.toml, line 2: rollout.group_size must be at least 1, but is 0.");
  EXPECT_THAT(file_error("[rollout]\ngroup_size = 3000000000\n"), HasSubstr("must be an integer"));
  EXPECT_THAT(file_error("[rollout]\nshuffle = 1\n"),
              HasSubstr("must be true or false, but is the number 1."));
  EXPECT_THAT(file_error("[optimizer]\nbetas = [0.9, 1.5]\n"),
              HasSubstr("optimizer.betas (element 2) must be at least 0 and at most 1, but is 1.5."));
  EXPECT_THAT(file_error("[optimizer]\nbetas = [0.9, \"x\"]\n"), HasSubstr("must be a list of numbers"));
  EXPECT_THAT(
      file_error("[optimizer]\nschedule = \"liner\"\n"),
      HasSubstr("must be one of constant, linear, cosine, but is \"liner\"; did you mean \"linear\"?"));
  EXPECT_THAT(file_error("rollout = 3\n"), HasSubstr("rollout is a section, but here it is the number 3"));
  EXPECT_THAT(file_error("[model]\nx = 1\n"), HasSubstr("model must be a string, but is a section."));
  EXPECT_THAT(file_error("model = 2024-01-01\n"), HasSubstr("but is a date or time."));
}

TEST(Config, BrokenTomlNamesTheLine) {
  EXPECT_THAT(file_error("model = \"a\"\n[rollout\n"), HasSubstr("run.toml, line 2: this is not valid TOML"));
  EXPECT_THAT(file_error("model = \"a\"\nmodel = \"b\"\n"),
              HasSubstr("run.toml, line 2: this is not valid TOML"));
  EXPECT_THAT(file_error("model = \"\xFF\"\n"), HasSubstr("run.toml, line 1"));
}

TEST(Config, OverridesTakeTomlValuesAndPlainStrings) {
  RunConfig config;
  ConfigReader reader(config);
  reader.set("model=a=b c\\");
  EXPECT_EQ(config.model, "a=b c\\");
  reader.set("model=\"q\\\"\"");
  EXPECT_EQ(config.model, "q\"");
  reader.set("model=");
  EXPECT_EQ(config.model, "");
  reader.set("optimizer.learning_rate=1e-3");
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  reader.set("rollout.tool.names=[\"x\", \"y\"]");
  EXPECT_THAT(config.rollout.tool.names, testing::ElementsAre("x", "y"));
  EXPECT_THAT(override_error("model"), HasSubstr("not of the form key=value"));
  EXPECT_THAT(override_error("=1"), HasSubstr("not of the form key=value"));
  EXPECT_THAT(override_error("rollout=1"), HasSubstr("is a section"));
  EXPECT_THAT(override_error("rollout.group_size=1\nmodel = \"x\""), HasSubstr("must be an integer"));
}

TEST(Config, DumpReadsBackToTheSameValues) {
  RunConfig config;
  ConfigReader reader(config);
  reader.set("model=quote\" back\\ line\n é");
  reader.set("optimizer.learning_rate=0.1");
  reader.set("optimizer.betas=[0.333333333333333314829616256247390992939472198486328125, 1]");
  reader.set("rollout.tool.names=[]");
  RunConfig again;
  ConfigReader second(again);
  second.read_text(reader.dump(), "resolved.toml");
  EXPECT_EQ(again.model, config.model);
  EXPECT_EQ(again.optimizer.learning_rate, 0.1);
  EXPECT_EQ(again.optimizer.betas, config.optimizer.betas);
  EXPECT_TRUE(std::isinf(again.rollout.tool.episode_limit));
  EXPECT_TRUE(again.rollout.tool.names.empty());
  for (const ConfigField& field : second.fields())
    EXPECT_THAT(field.origin, HasSubstr("resolved.toml, line"));
}

TEST(Config, DocumentationListsEveryKeyWithItsDefault) {
  RunConfig config;
  config.rollout.group_size = 8;
  ConfigReader reader(config);
  reader.set("rollout.group_size=3");
  std::string text = reader.documentation();
  for (const ConfigField& field : reader.fields()) {
    EXPECT_THAT(text, HasSubstr("`" + field.key + "`"));
    EXPECT_FALSE(field.documentation.empty());
  }
  EXPECT_THAT(text, HasSubstr("| `rollout.group_size` | an integer, at least 1 | `8` | Samples per task. |"));
  EXPECT_THAT(text, HasSubstr("## [rollout.tool]\n\nLimits of tools.\n"));
  EXPECT_THAT(text, HasSubstr("Tools on offer \\| any order."));
}

TEST(Config, ReadsAFileAndNamesAMissingOne) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "run.toml";
  write_file_atomic(path, "[rollout]\ngroup_size = 0\n");
  RunConfig config;
  ConfigReader reader(config);
  try {
    reader.read_file(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path.string() + ", line 2: rollout.group_size must be at least 1, but is 0.");
  }
  std::filesystem::remove(path);
  EXPECT_THROW(reader.read_file(path), Error);
}

TEST(Config, ASchemaThatBreaksItsOwnPromisesIsRefused) {
  struct BadDefault {
    int size = 0;
    void for_each_field(ConfigFields& visit) { visit("size", size, "x", at_least(1)); }
  } bad_default;
  EXPECT_THROW(ConfigReader reader(bad_default), Error);
  struct Twice {
    int size = 1;
    void for_each_field(ConfigFields& visit) {
      visit("size", size, "x");
      visit("size", size, "x");
    }
  } twice;
  EXPECT_THROW(ConfigReader reader(twice), Error);
}

TEST(NearestName, CountsSwapsOnceAndRefusesFarNames) {
  std::vector<std::string> names = {"reward", "rollout", "train"};
  EXPECT_EQ(nearest_name("rewadr", names), "reward");
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("zzzzzz", names), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace stoker
