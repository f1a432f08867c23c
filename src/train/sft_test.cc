#include "train/sft.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/testing/test_folder.h"
#include "model/model_directory.h"
#include "text/chatml_renderer.h"
#include "text/testing/tokenizers.h"
#include "train/testing/table_learner.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::table_log_probabilities;
using testing::table_weights;
using testing::TableLearner;

constexpr int32_t kVocabulary = 11;

// Sequences that follow a rule which the model can learn: each trained token is the one before it plus 2.
class CountingExamples final : public SftExampleSource {
 public:
  SftExample example(uint64_t index) const override {
    RandomStream random({.run_seed = 3, .purpose = RandomPurpose::kData, .task_ordinal = index});
    SftExample example;
    for (uint64_t i = 0; i < 2 + random.below(3); ++i)
      add(example, static_cast<int32_t>(random.below(kVocabulary)), 0);
    for (uint64_t i = 0; i < 3 + random.below(4); ++i)
      add(example, (example.tokens.back() + 2) % kVocabulary, 1);
    return example;
  }

 private:
  static void add(SftExample& example, int32_t token, uint8_t trained) {
    example.tokens.push_back(token);
    example.trained.push_back(trained);
  }
};

class SftTest : public ::testing::Test {
 protected:
  static SftConfig config_for(int64_t steps) {
    SftConfig config;
    config.steps = steps;
    config.batch_size = 5;
    config.optimizer.learning_rate = 1.0;
    return config;
  }

  const TestFolder test_folder_;
  const fs::path& folder_ = test_folder_.path();
  CountingExamples examples_;
};

struct SftRun {
  SftRun(const SftConfig& config, const SftExampleSource& examples, CheckpointStore* store = nullptr,
         int64_t every_steps = 0)
      : learner(table_weights(kVocabulary, 5)) {
    TrainState start;
    if (store != nullptr) {
      if (std::optional<Checkpoint> checkpoint = store->newest()) {
        start = checkpoint->state;
        learner.restore(load_model_weights(checkpoint->model_folder()), checkpoint->optimizer_folder());
      }
    }
    SftParts parts{.learner = learner, .examples = examples, .checkpoints = store};
    parts.on_step = [this](int64_t step, const MetricMap& metrics) {
      steps.emplace_back(step, metrics);
      if (step == stop_after) trainer->request_stop();
    };
    trainer.emplace(config, CheckpointConfig{.every_steps = every_steps}, parts, start);
  }
  SftSummary go() { return run(executor, trainer->run()); }
  std::vector<float> weights() {
    WeightsPtr snapshot = run(executor, learner.snapshot());
    return {snapshot->values().begin(), snapshot->values().end()};
  }

  SimulatedExecutor executor{1};
  TableLearner learner;
  std::optional<SftTrainer> trainer;
  int64_t stop_after = -1;
  std::vector<std::pair<int64_t, MetricMap>> steps;
};

TEST_F(SftTest, LearnsTheDemonstrations) {
  SftRun training(config_for(150), examples_);
  SftSummary summary = training.go();
  EXPECT_EQ(summary.state.step, 150);
  EXPECT_EQ(summary.state.next_ordinal, 750u);
  EXPECT_GT(training.steps.front().second.at("loss"), 1.5);
  EXPECT_LT(training.steps.back().second.at("loss"), 0.5);
  EXPECT_NEAR(training.steps.back().second.at("learning_rate"), 0.1, 1e-12);
}

TEST_F(SftTest, LossIsTheMeanOverTrainedTokensOfTheWholeStep) {
  Weights start = table_weights(kVocabulary, 5);
  double sum = 0;
  int64_t count = 0;
  for (uint64_t index = 0; index < 5; ++index) {
    SftExample example = examples_.example(index);
    for (size_t i = 1; i < example.tokens.size(); ++i) {
      if (example.trained[i] == 0) continue;
      std::span<const int32_t> context(example.tokens.data(), i);
      sum -= table_log_probabilities(start, context, 1.0f)[example.tokens[i]];
      ++count;
    }
  }
  SftRun training(config_for(1), examples_);
  training.go();
  EXPECT_NEAR(training.steps[0].second.at("loss"), sum / static_cast<double>(count), 1e-6);
  EXPECT_EQ(training.steps[0].second.at("tokens/trained"), static_cast<double>(count));
}

TEST_F(SftTest, AnySplitIntoMicroBatchesGivesTheSameSteps) {
  SftConfig config = config_for(3);
  SftRun whole(config, examples_);
  whole.go();
  for (int64_t budget : {1, 9, 17}) {
    config.micro_batch_tokens = budget;
    SftRun parts(config, examples_);
    parts.go();
    EXPECT_NEAR(parts.steps.back().second.at("loss"), whole.steps.back().second.at("loss"), 1e-6);
    std::vector<float> expected = whole.weights(), actual = parts.weights();
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5);
  }
}

TEST_F(SftTest, StoppedAndResumedEndsInTheSameBits) {
  SftConfig config = config_for(8);
  config.stop_loss = 1e-6;
  config.stop_window = 3;
  SftRun whole(config, examples_);
  SftSummary expected = whole.go();
  for (int64_t stop_after = 1; stop_after < 8; ++stop_after) {
    CheckpointStore store(folder_ / std::to_string(stop_after), 1);
    SftRun first(config, examples_, &store, 2);
    first.stop_after = stop_after;
    SftSummary interrupted = first.go();
    EXPECT_TRUE(interrupted.interrupted);
    EXPECT_EQ(interrupted.checkpoint->filename(), "step_" + std::to_string(stop_after));
    SftRun second(config, examples_, &store);
    SftSummary finished = second.go();
    EXPECT_EQ(finished.state, expected.state);
    EXPECT_EQ(second.weights(), whole.weights());
  }
}

TEST_F(SftTest, StopLossEndsEarlyButNotBeforeTheMinimum) {
  SftConfig config = config_for(200);
  config.optimizer.schedule = "constant";
  config.stop_loss = 1.0;
  config.stop_window = 4;
  SftRun training(config, examples_);
  SftSummary summary = training.go();
  EXPECT_TRUE(summary.converged);
  EXPECT_LT(summary.state.step, 200);
  ASSERT_GE(summary.state.step, 4);
  double mean = 0;
  for (size_t i = training.steps.size() - 4; i < training.steps.size(); ++i) {
    mean += training.steps[i].second.at("loss") / 4;
  }
  EXPECT_LT(mean, 1.0);

  config.minimum_steps = summary.state.step + 7;
  SftRun longer(config, examples_);
  EXPECT_EQ(longer.go().state.step, config.minimum_steps);
}

class LongExamples final : public SftExampleSource {
 public:
  SftExample example(uint64_t) const override {
    return {.tokens = std::vector<int32_t>(600, 1), .trained = std::vector<uint8_t>(600, 1)};
  }
};

TEST_F(SftTest, ExampleLongerThanTheContextIsNamed) {
  LongExamples examples;
  SftRun training(config_for(2), examples);
  try {
    training.go();
    FAIL() << "an example of 600 tokens was trained with a context of 512";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find("600"), std::string::npos) << error.what();
  }
}

TEST(SftPacking, NoExampleIsCutAndNothingIsShared) {
  CountingExamples source;
  std::vector<SftExample> examples;
  int64_t trained = 0;
  for (uint64_t index = 0; index < 20; ++index) {
    examples.push_back(source.example(index % 10));  // every example twice
    trained += examples.back().trained_count();
  }
  for (int64_t budget : {1, 20, 100000}) {
    int64_t predictions = 0;
    size_t segments = 0;
    for (const SftMicroBatch& micro_batch : pack_sft_examples(examples, budget)) {
      EXPECT_TRUE(micro_batch.tokens <= budget || micro_batch.batch.segments.size() == 1);
      predictions += micro_batch.batch.prediction_count();
      for (const Segment& segment : micro_batch.batch.segments) {
        EXPECT_EQ(segment.parent, -1);
        std::vector<int32_t> expected = examples[segments++].tokens;
        expected.pop_back();
        EXPECT_EQ(segment.tokens, expected);
      }
    }
    EXPECT_EQ(predictions, trained);
    EXPECT_EQ(segments, examples.size());
  }
}

std::vector<Message> calculator_conversation() {
  return {{.role = Role::kUser, .content = "What is 1+2?"},
          {.role = Role::kAssistant,
           .tool_calls = {{.name = "calculator", .arguments = Json::object({{"expression", "1+2"}})}}},
          {.role = Role::kTool, .content = "3", .name = "calculator"},
          {.role = Role::kAssistant, .content = "The answer is 3."}};
}

TEST(SftExamples, OnlyTheAssistantIsTrainedItsEndTokenIncluded) {
  TokenizerPtr tokenizer = demo_tokenizer();
  ChatMlRenderer renderer(tokenizer, {.list_tools = false});
  SftExample example = make_sft_example(renderer, calculator_conversation(), {}, "the conversation");
  ASSERT_EQ(example.tokens.size(), example.trained.size());
  std::string trained, context;
  for (size_t i = 0; i < example.tokens.size(); ++i) {
    std::string text = tokenizer->decode(std::span(&example.tokens[i], 1), true);
    (example.trained[i] != 0 ? trained : context) += text;
  }
  EXPECT_EQ(trained,
            "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": "
            "\"1+2\"}}\n</tool_call><|im_end|>"
            "The answer is 3.<|im_end|>");
  EXPECT_NE(context.find("What is 1+2?"), std::string::npos);
  EXPECT_NE(context.find("<tool_response>\n3\n</tool_response>"), std::string::npos);
  EXPECT_EQ(example.trained.back(), 1);  // nothing after the last trained token is computed
}

TEST(SftExamples, ConversationWithoutAnAssistantIsNamed) {
  ChatMlRenderer renderer(demo_tokenizer(), {.list_tools = false});
  std::vector<Message> messages = {{.role = Role::kUser, .content = "hello"}};
  std::string sentence =
      input_error_of([&] { make_sft_example(renderer, messages, {}, "Conversation 7 of the file"); });
  EXPECT_NE(sentence.find("Conversation 7 of the file"), std::string::npos) << sentence;
}

TEST_F(SftTest, ConversationsOfAFileComeInEpochsOfTheirOwnOrder) {
  fs::path path = folder_ / "conversations.jsonl";
  std::string text;
  for (int i = 0; i < 10; ++i) {
    std::vector<Message> messages = {{.role = Role::kUser, .content = "q"},
                                     {.role = Role::kAssistant, .content = std::to_string(i)}};
    text += Json::object({{"messages", messages_to_json(messages)}}).dump() + "\n";
  }
  write_file_atomic(path, text);
  ChatMlRenderer renderer(demo_tokenizer(), {.list_tools = false});
  auto order_of = [&](uint64_t seed, uint64_t epoch) {
    auto source = conversation_examples(ConversationFile(path), renderer, seed);
    std::vector<std::vector<int32_t>> result;
    for (uint64_t i = 0; i < 10; ++i) result.push_back(source->example(epoch * 10 + i).tokens);
    return result;
  };
  auto first = order_of(1, 0);
  EXPECT_EQ(order_of(1, 0), first);
  EXPECT_NE(order_of(1, 1), first);
  EXPECT_NE(order_of(2, 0), first);
  auto sorted = [](auto rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  EXPECT_EQ(sorted(order_of(1, 1)), sorted(first));
}

// Notes what is asked of another source; trains on something small instead.
class NotedExamples final : public SftExampleSource {
 public:
  explicit NotedExamples(const SftExampleSource& source) : source_(source) {}
  SftExample example(uint64_t index) const override {
    noted.push_back(source_.example(index).tokens);
    return {.tokens = {1, 2}, .trained = {0, 1}};
  }
  mutable std::vector<std::vector<int32_t>> noted;

 private:
  const SftExampleSource& source_;
};

TEST_F(SftTest, CKP_09_ResumingInTheMiddleOfAnEpochGoesOnInItsOrder) {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    std::vector<Message> messages = {{.role = Role::kUser, .content = "q"},
                                     {.role = Role::kAssistant, .content = std::to_string(i)}};
    text += Json::object({{"messages", messages_to_json(messages)}}).dump() + "\n";
  }
  write_file_atomic(folder_ / "conversations.jsonl", text);
  ChatMlRenderer renderer(demo_tokenizer(), {.list_tools = false});
  auto source = conversation_examples(ConversationFile(folder_ / "conversations.jsonl"), renderer, 1);
  SftConfig config = config_for(30);
  config.batch_size = 1;
  NotedExamples whole(*source), first(*source), second(*source);
  SftRun(config, whole).go();

  CheckpointStore store(folder_ / "checkpoints", 1);
  SftRun interrupted(config, first, &store);
  interrupted.stop_after = 14;
  interrupted.go();
  SftRun resumed(config, second, &store);
  EXPECT_EQ(resumed.go().state.step, 30);
  std::vector<std::vector<int32_t>> both = first.noted;
  both.insert(both.end(), second.noted.begin(), second.noted.end());
  EXPECT_EQ(first.noted.size(), 14u);
  EXPECT_EQ(both, whole.noted);
}

}  // namespace
}  // namespace stoker
