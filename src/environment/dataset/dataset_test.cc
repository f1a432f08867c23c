#include "environment/dataset/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/testing/test_folder.h"
#include "environment/dataset/csv_file.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Dataset : public ::testing::Test {
 protected:
  std::unique_ptr<EnvironmentKind> kind(const std::string& name, const std::string& content,
                                        Json options = Json::object()) {
    options.set("train_file", folder_.write(name, content));
    return make_environment_kind("dataset", options);
  }
  std::string error_of(const std::string& name, const std::string& content, Json options = Json::object()) {
    try {
      kind(name, content, std::move(options))->training_tasks(1);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      const std::string message = error.what();
      return message.substr(std::min(message.find(name), message.size()));
    }
    return "";
  }
  // The first messages of a file's first row, as "role: content | ...", and the reward of `answer`.
  std::string first_prompt(const EnvironmentKind& kind) {
    const Result<Observation> first =
        run(executor_, kind.make(test_pool())->reset(kind.training_tasks(1)->task(0), 0));
    if (!first) return first.failure().message;
    std::string text;
    for (const Message& message : first->messages) {
      text += (text.empty() ? "" : " | ") + std::string(to_string(message.role)) + ": " + message.content;
    }
    return text;
  }
  double score(const EnvironmentKind& kind, const std::string& answer) {
    const TaskRow task = kind.training_tasks(1)->task(0);
    const std::vector<Message> messages = {{.role = Role::kAssistant, .content = answer}};
    const EpisodeRecord record;
    return run(executor_, kind.rewards().at(0)->score({task, messages, record, test_pool()}))->reward;
  }

  TestFolder folder_;
  SimulatedExecutor executor_{1};
};

const Json kNumeric = Json::object({{"match", "numeric"}});

TEST_F(Dataset, ReadsTheFormOfTrl) {
  EXPECT_EQ(first_prompt(*kind("a.jsonl", R"({"prompt":"2+2?","solution":"4","level":3})")), "user: 2+2?");
  auto chat =
      kind("b.jsonl",
           R"({"prompt":[{"role":"system","content":"Brief."},{"role":"user","content":"2+2?"}],"answer":4})",
           kNumeric);
  EXPECT_EQ(first_prompt(*chat), "system: Brief. | user: 2+2?");
  EXPECT_EQ(score(*chat, "It is 4."), 1.0);
  EXPECT_EQ(score(*chat, "5"), 0.0);
}

TEST_F(Dataset, ReadsTheFormOfVerl) {
  auto made =
      kind("a.jsonl",
           R"({"data_source":"openai/gsm8k","prompt":[{"role":"user","content":"2+2?"}],"ability":"math",)"
           R"("reward_model":{"style":"rule","ground_truth":"4"},"extra_info":{"index":7}})",
           kNumeric);
  EXPECT_EQ(first_prompt(*made), "user: 2+2?");
  EXPECT_EQ(score(*made, "4"), 1.0);
  // A reward from outside sees the row as it is.
  EXPECT_EQ(made->training_tasks(1)->task(0).fields.at("extra_info").at("index").as_int(), 7);
}

TEST_F(Dataset, ReadsTheFormOfNemoGym) {
  auto made = kind("a.jsonl",
                   R"({"responses_create_params":{"input":[{"role":"developer","content":"Brief."},)"
                   R"({"type":"message","role":"user","content":[{"type":"input_text","text":"2+2?"}]}]},)"
                   R"("expected_answer":"4"})",
                   kNumeric);
  EXPECT_EQ(first_prompt(*made), "system: Brief. | user: 2+2?");
  EXPECT_EQ(score(*made, "4"), 1.0);
}

TEST_F(Dataset, ReadsTheFormOfVerifiers) {
  auto made = kind("a.jsonl", R"({"question":"2+2?","answer":"four 4","info":{"a":1}})", kNumeric);
  EXPECT_EQ(first_prompt(*made), "user: 2+2?");
  EXPECT_EQ(score(*made, "4"), 1.0);
}

TEST_F(Dataset, ReadsAnyColumnsThatAreNamed) {
  auto made = kind("a.jsonl", R"({"q":{"text":"2+2?"},"a":4,"key":"first"})",
                   Json::object({{"prompt_column", "q.text"},
                                 {"answer_column", "a"},
                                 {"id_column", "key"},
                                 {"match", "numeric"},
                                 {"instruction", "Be brief."}}));
  EXPECT_EQ(first_prompt(*made), "user: 2+2?\n\nBe brief.");
  EXPECT_EQ(made->training_tasks(1)->task(0).id, "first");
  EXPECT_EQ(score(*made, "4"), 1.0);
}

TEST_F(Dataset, ReadsCsv) {
  auto made = kind("a.csv", "prompt,answer\r\n\"2+2,\r\nsaid \"\"he\"\"?\",4\r\n\r\n3+3?,6\r\n", kNumeric);
  auto tasks = made->training_tasks(1);
  EXPECT_EQ(tasks->epoch_size(), 2u);
  std::vector<std::string> prompts, ids;
  for (uint64_t i = 0; i < 2; ++i) {
    prompts.push_back(tasks->task(i).fields.at("prompt").as_string());
    ids.push_back(tasks->task(i).id);
  }
  EXPECT_THAT(prompts, ::testing::UnorderedElementsAre("2+2,\r\nsaid \"he\"?", "3+3?"));
  EXPECT_THAT(ids, ::testing::UnorderedElementsAre("a.csv:2", "a.csv:5"));
}

TEST_F(Dataset, CsvRecords) {
  auto fields = [](std::string_view text) {
    size_t at = 0;
    return read_csv_record(text, at);
  };
  EXPECT_THAT(fields("a,,\"b\"\n"), ElementsAre("a", "", "b"));
  EXPECT_THAT(fields(""), ElementsAre(""));
  EXPECT_THAT(fields("a,"), ElementsAre("a", ""));
  EXPECT_THROW(fields("\"a"), Error);
  EXPECT_THROW(fields("\"a\"b"), Error);
}

TEST_F(Dataset, WhatIsWrongIsNamed) {
  EXPECT_EQ(
      error_of("a.jsonl", "{\"promt\":\"x\"}\n"),
      "a.jsonl, line 1: the row has no column \"prompt\" for the prompt; it has promt. Name another with "
      "prompt_column, or the format.");
  EXPECT_THAT(error_of("a.jsonl", "{\"prompt\":7}\n"), HasSubstr("must be a text or a list of messages"));
  EXPECT_THAT(error_of("a.jsonl", R"({"prompt":[{"role":"assistant","content":"x"}]})"),
              HasSubstr("ends with an assistant's message"));
  EXPECT_EQ(error_of("a.jsonl", "{\"prompt\":\"x\"}\n", kNumeric),
            "a.jsonl, line 1: the row has no text or number in the column \"answer\"; name another with "
            "answer_column.");
  EXPECT_THAT(error_of("a.jsonl", R"({"prompt":"x","answer":"Paris"})", kNumeric),
              HasSubstr("\"answer\" holds no number"));
  EXPECT_THAT(error_of("a.jsonl", "{\"prompt\":\"x\",\"id\":1}\n{\"prompt\":\"y\",\"id\":1}\n"),
              HasSubstr("line 2: the \"id\" 1 stands in line 1 too"));
  EXPECT_EQ(error_of("b.csv", "prompt,answer\nx\n"), "b.csv, line 2: the row has 1 values for 2 columns.");
  EXPECT_EQ(error_of("b.csv", "prompt,answer\n\"x\n"), "b.csv, line 2: a quote is not closed.");
  EXPECT_THAT(error_of("b.csv", "a,a\n1,2\n"), HasSubstr("a column name occurs twice"));
  EXPECT_THAT(error_of("b.csv", "prompt\n"), HasSubstr("holds no rows"));
}

TEST_F(Dataset, ParquetIsRefusedWithTheCommandThatConverts) {
  const std::string expected = "is Parquet, which is not read; convert it with: python3 -c \"import pandas; ";
  EXPECT_THAT(error_of("rows.parquet", "PAR1"), HasSubstr(expected));
  EXPECT_THAT(error_of("rows.jsonl", "PAR1...."), HasSubstr(expected));
}

TEST_F(Dataset, HeldOutQuestionsAreLeftOut) {
  const std::string held_out = folder_.write("e.jsonl", "{\"prompt\":\"b\"}\n");
  auto made = kind("t.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n",
                   Json::object({{"evaluation_file", held_out}}));
  EXPECT_EQ(made->training_tasks(1)->epoch_size(), 2u);
  EXPECT_EQ(made->evaluation_tasks()->task(5).fields.at("prompt").as_string(), "b");
  const std::string other = folder_.write("o.jsonl", "{\"question\":\"b\",\"answer\":\"1\"}\n");
  EXPECT_THROW(
      kind("t.jsonl", "{\"prompt\":\"a\"}\n", Json::object({{"evaluation_file", other}}))->training_tasks(1),
      Error);
}

}  // namespace
}  // namespace stoker
