#include "environment/gsm8k/gsm8k.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/file.h"
#include "base/json.h"
#include "base/testing/test_folder.h"
#include "environment/gsm8k/final_number.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

constexpr const char* kCases = STOKER_SOURCE_DIR "/examples/gsm8k/answer_cases.jsonl";
constexpr const char* kTest = STOKER_SOURCE_DIR "/../shared/data/gsm8k/test.jsonl";

TEST(Gsm8k, HardFormsAreReadAsTheSharedTableSays) {
  int cases = 0;
  for_each_line(kCases, [&](std::string_view line, size_t number, bool) {
    const Json row = Json::parse(line);
    const Json& expected = row.at("answer");
    const std::optional<std::string> found = final_number(row.at("text").as_string());
    EXPECT_EQ(found ? Json(*found) : Json(), expected)
        << "line " << number << ": " << row.at("text").as_string();
    ++cases;
    return true;
  });
  EXPECT_GE(cases, 80);
}

TEST(Gsm8k, IsLinearInTheLength) {
  EXPECT_EQ(final_number(std::string(200'000, '7')), std::string(200'000, '7'));
  std::string slashes;
  for (int i = 0; i < 50'000; ++i) slashes += "1/2/";
  EXPECT_EQ(final_number(slashes), "2");
  EXPECT_EQ(final_number(std::string(100'000, '{') + "\\boxed{"), std::nullopt);
}

// The reference answer of every row is the integer behind "####".
TEST(Gsm8k, ReferenceAnswersOfTheWholeTestSet) {
  if (!std::filesystem::exists(kTest)) GTEST_SKIP() << "../shared/data/gsm8k/test.jsonl is not there.";
  int rows = 0;
  for_each_line(kTest, [&](std::string_view line, size_t number, bool) {
    const std::string answer = Json::parse(line).at("answer").as_string();
    std::string reference = answer.substr(answer.rfind("#### ") + 5);
    std::erase(reference, ',');
    EXPECT_EQ(final_number(answer), reference) << "line " << number;
    ++rows;
    return true;
  });
  EXPECT_EQ(rows, 1319);
}

TEST(Gsm8k, AsksAndScores) {
  TestFolder folder;
  const std::string file =
      folder.write("train.jsonl", R"({"question":"2 of 9?","answer":"9 * 2 = <<9*2=18>>18\n#### 18"})"
                                  "\n");
  auto kind = make_environment_kind("gsm8k", Json::object({{"train_file", file}}));
  const TaskRow task = kind->training_tasks(1)->task(0);
  EXPECT_EQ(task.id, "train.jsonl:1");
  SimulatedExecutor executor(1);
  auto environment = kind->make(test_pool());
  const Result<Observation> first = run(executor, environment->reset(task, 0));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->messages.at(0).content.starts_with("2 of 9?\n\nThink"));
  auto score = [&](const std::string& answer) {
    std::vector<Message> messages = first->messages;
    messages.push_back({.role = Role::kAssistant, .content = answer});
    EpisodeRecord record;
    return run(executor, kind->rewards().front()->score({task, messages, record, test_pool()}))->reward;
  };
  EXPECT_EQ(score("9 * 2 = 18.\n#### $18.00"), 1.0);
  EXPECT_EQ(score("#### 19"), 0.0);
  EXPECT_EQ(score("no idea"), 0.0);
  EXPECT_TRUE(make_environment_kind("gsm8k", Json::object({{"train_file", file}, {"reward", false}}))
                  ->rewards()
                  .empty());
}

}  // namespace
}  // namespace stoker
