#include "environment/question_answering/question_answering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/testing/test_folder.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string rows(int first, int count) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    text += Json::object({{"prompt", "Question " + std::to_string(i)}, {"answer", i}}).dump() + "\n";
  }
  return text;
}

class QuestionAnswering : public ::testing::Test {
 protected:
  static std::unique_ptr<EnvironmentKind> kind(Json options) {
    return make_environment_kind("question_answering", options);
  }

  // The sentence of the error that reading the training file gives, from the file's name on.
  std::string error_of(const std::string& content, Json options = Json::object()) {
    options.set("train_file", folder_.write("train.jsonl", content));
    try {
      kind(options)->training_tasks(1);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      std::string message = error.what();
      EXPECT_THAT(message, StartsWith("environment 'question_answering', train_file: "));
      return message.substr(std::min(message.find("train.jsonl"), message.size()));
    }
    return "";
  }

  static double score(const Json& options, Json row, const std::string& answer) {
    auto rewards = kind(options)->rewards();
    TaskRow task{"t", std::move(row)};
    std::vector<Message> messages = {{.role = Role::kUser, .content = "?"},
                                     {.role = Role::kAssistant, .content = answer}};
    EpisodeRecord record;
    SimulatedExecutor executor(1);
    Result<RewardResult> result =
        run(executor, rewards.front()->score({task, messages, record, test_pool()}));
    EXPECT_EQ(result->success, result->reward == 1.0);
    return result->reward;
  }

  TestFolder folder_;
};

TEST_F(QuestionAnswering, RowsBecomeTasks) {
  std::string train = folder_.write(
      "train.jsonl",
      R"({"id":"first","prompt":"2+2?","answer":4,"topic":"sums"})"
      "\n"
      R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"3+3?"}],"answer":"6"})"
      "\n");
  auto made =
      kind(Json::object({{"train_file", train}, {"evaluation_file", folder_.write("e.jsonl", rows(0, 3))}}));
  auto tasks = made->training_tasks(1);
  ASSERT_EQ(tasks->epoch_size(), 2u);
  std::map<std::string, TaskRow> by_id;
  for (uint64_t i = 0; i < 2; ++i) by_id[tasks->task(i).id] = tasks->task(i);
  ASSERT_TRUE(by_id.contains("first"));
  ASSERT_TRUE(by_id.contains("train.jsonl:2"));
  EXPECT_EQ(by_id["first"].fields.at("topic").as_string(), "sums");

  auto environment = made->make(test_pool());
  EXPECT_TRUE(environment->tools().empty());
  SimulatedExecutor executor(1);
  Result<Observation> observation = run(executor, environment->reset(by_id["train.jsonl:2"], 0));
  ASSERT_TRUE(observation.ok());
  ASSERT_EQ(observation->messages.size(), 2u);
  EXPECT_EQ(observation->messages[0].role, Role::kSystem);
  EXPECT_EQ(observation->messages[1].content, "3+3?");
  Action action{.content = "6"};
  EXPECT_TRUE(run(executor, environment->step(action))->done);
  run(executor, environment->close());

  TaskRow broken{"b", Json::object({{"answer", 1}})};
  Result<Observation> failed = run(executor, made->make(test_pool())->reset(broken, 0));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.failure().name(), "environment.bad_task");
}

TEST_F(QuestionAnswering, EpochsCoverAllRowsInSeededOrders) {
  std::string train = folder_.write("train.jsonl", rows(0, 50));
  auto ids = [&](uint64_t seed, uint64_t epoch) {
    auto tasks = kind(Json::object({{"train_file", train}}))->training_tasks(seed);
    std::vector<std::string> result;
    for (uint64_t i = 0; i < 50; ++i) result.push_back(tasks->task(epoch * 50 + i).id);
    return result;
  };
  std::vector<std::string> first = ids(1, 0);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(ids(1, 0), first);
  EXPECT_NE(ids(1, 1), first);
  EXPECT_NE(ids(2, 0), first);
}

TEST_F(QuestionAnswering, HeldOutQuestionsAreLeftOutOfTraining) {
  std::string train = folder_.write("train.jsonl", rows(0, 10));
  std::string evaluation = folder_.write("evaluation.jsonl", rows(7, 5));
  auto made = kind(Json::object({{"train_file", train}, {"evaluation_file", evaluation}}));
  auto tasks = made->training_tasks(1);
  ASSERT_EQ(tasks->epoch_size(), 7u);
  std::set<int64_t> trained;
  for (uint64_t i = 0; i < 7; ++i) trained.insert(tasks->task(i).fields.at("answer").as_int());
  EXPECT_THAT(trained, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  auto held_out = made->evaluation_tasks();
  ASSERT_EQ(held_out->epoch_size(), 5u);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(held_out->task(i).fields.at("answer").as_int(), static_cast<int64_t>(7 + i % 5));
  }
  EXPECT_THROW(kind(Json::object({{"train_file", train}, {"evaluation_file", train}}))->training_tasks(1),
               Error);
}

TEST_F(QuestionAnswering, NumericMatchComparesLastNumbers) {
  Json options = Json::object();
  Json text = Json::object({{"answer", "It costs 6 + 12.\n#### 18"}});
  EXPECT_EQ(score(options, text, "The answer is $18.00."), 1.0);
  EXPECT_EQ(score(options, text, "18"), 1.0);
  EXPECT_EQ(score(options, text, "18.5"), 0.0);
  EXPECT_EQ(score(options, text, "eighteen"), 0.0);
  EXPECT_EQ(score(options, Json::object({{"answer", 1234}}), "1,234 apples"), 1.0);
  EXPECT_EQ(score(options, Json::object({{"answer", 0.5}}), ".50"), 1.0);
  EXPECT_EQ(score(options, Json::object({{"answer", 1e20}}), "100000000000000000000"), 1.0);
  EXPECT_EQ(score(options, Json::object({{"answer", -3}}), "−3"), 1.0);
}

TEST_F(QuestionAnswering, ExactMatchComparesTexts) {
  Json options = Json::object({{"match", "exact"}});
  Json row = Json::object({{"answer", "New  York"}});
  EXPECT_EQ(score(options, row, " new york\n"), 1.0);
  EXPECT_EQ(score(options, row, "It is New York"), 0.0);
  options.set("ignore_case", false);
  EXPECT_EQ(score(options, row, "new york"), 0.0);
  EXPECT_EQ(score(options, row, "New York"), 1.0);
}

TEST_F(QuestionAnswering, TheCalculatorIsAKnob) {
  auto environment = kind(Json::object({{"calculator", true}}))->make(test_pool());
  ASSERT_EQ(environment->tools().size(), 1u);
  EXPECT_EQ(environment->tools()[0]->schema().name, "calculator");
}

TEST_F(QuestionAnswering, BrokenRowsAreNamed) {
  const std::string good = rows(1, 1);
  EXPECT_EQ(error_of(good + "{\"prompt\":\"x\"}\n"),
            "train.jsonl, line 2: the row has no \"answer\"; give it the text or number to match.");
  EXPECT_EQ(error_of(good + "{\"promt\":\"x\",\"answer\":1}\n"),
            "train.jsonl, line 2: the row has neither \"prompt\" nor \"messages\"; give it one of them.");
  EXPECT_EQ(error_of("{\"prompt\":\"x\",\"messages\":[],\"answer\":1}\n"),
            "train.jsonl, line 1: the row has both \"prompt\" and \"messages\"; give it one of them.");
  EXPECT_EQ(error_of("{\"prompt\":7,\"answer\":1}\n"),
            "train.jsonl, line 1: \"prompt\" must be a string, but is integer.");
  EXPECT_EQ(error_of("{\"messages\":[],\"answer\":1}\n"),
            "train.jsonl, line 1: \"messages\" must end with what the assistant answers to, but is empty.");
  EXPECT_THAT(error_of("{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}],\"answer\":1}\n"),
              HasSubstr("ends with an assistant's message"));
  EXPECT_EQ(error_of("{\"prompt\":\"x\",\"answer\":null}\n"),
            "train.jsonl, line 1: \"answer\" must be a string or a number, but is null.");
  EXPECT_EQ(error_of("{\"prompt\":\"x\",\"answer\":\"Paris\"}\n"),
            "train.jsonl, line 1: \"answer\" holds no number; give it one or set match = \"exact\".");
  EXPECT_EQ(error_of("{\"prompt\":\"x\",\"answer\":\"Paris\"}\n", Json::object({{"match", "exact"}})), "");
  EXPECT_EQ(
      error_of(good + "{\"prompt\" \"x\"}\n"),
      "train.jsonl, line 2: this is not valid JSON: unexpected '\"' at column 11; each line must be one JSON "
      "object.");
  EXPECT_EQ(
      error_of("{\"prompt\":\"x\",\"answer\":1,\"id\":5}\n\n{\"prompt\":\"y\",\"answer\":1,\"id\":\"5\"}\n"),
      "train.jsonl, line 3: the \"id\" 5 stands in line 1 too; give each row its own.");
  EXPECT_THAT(error_of("{\"prompt\":\"x\",\"answer\":1,\"id\":true}\n"), HasSubstr("\"id\" must be"));
}

TEST_F(QuestionAnswering, MissingFilesAreNamed) {
  auto message = [](const Json& options) -> std::string {
    try {
      kind(options)->training_tasks(1);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(Json::object()),
            "environment 'question_answering': train_file is not set; name a JSON Lines file.");
  EXPECT_THAT(message(Json::object({{"train_file", (folder_ / "none.jsonl").string()}})),
              HasSubstr("none.jsonl"));
  EXPECT_THAT(message(Json::object({{"trian_file", "x"}})), HasSubstr("did you mean train_file?"));
  EXPECT_THAT(message(Json::object({{"max_row_bytes", 0}})), HasSubstr("max_row_bytes must be"));
}

TEST_F(QuestionAnswering, ARowOfTenMegabytesWorksOrIsRefusedByANamedLimit) {
  std::string long_row =
      Json::object({{"prompt", std::string(10'000'000, 'x')}, {"answer", 1}}).dump() + "\n";
  EXPECT_EQ(error_of(rows(0, 1) + long_row), "");
  EXPECT_THAT(
      error_of(rows(0, 1) + long_row, Json::object({{"max_row_bytes", 1000000}})),
      HasSubstr("train.jsonl, line 2: the row has 10000024 bytes, more than max_row_bytes = 1000000"));
}

}  // namespace
}  // namespace stoker
