#include "environment/word_problems/word_problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "environment/calculator/calculator.h"
#include "environment/testing/test_pool.h"
#include "environment/word_problems/problem.h"

namespace stoker {
namespace {

std::unique_ptr<EnvironmentKind> kind(const Json& options = Json::object()) {
  return make_environment_kind("word_problems", options);
}

std::string error_of(const Json& options) {
  try {
    kind(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

// An expression with each number, or letter of a template, as 'n'.
std::string operations(const std::string& expression) {
  std::string result;
  for (char c : expression) {
    char symbol = std::isalnum(static_cast<unsigned char>(c)) ? 'n' : c;
    if (symbol != 'n' || !result.ends_with('n')) result.push_back(symbol);
  }
  return result;
}

// The words of a template in small letters, without its drawn ones.
std::set<std::string> words(const WordTemplate& one) {
  std::set<std::string> result;
  std::string word;
  bool drawn = false;
  for (char c : std::string(one.text) + ' ') {
    drawn = c == '{' || (drawn && c != '}');
    if (!drawn && std::isalpha(static_cast<unsigned char>(c))) {
      word.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    } else if (!word.empty()) {
      result.insert(std::exchange(word, ""));
    }
  }
  return result;
}

// The share of the words of either that both have.
double likeness(const std::set<std::string>& a, const std::set<std::string>& b) {
  auto shared = static_cast<double>(std::ranges::count_if(a, [&b](auto& word) { return b.contains(word); }));
  return shared / (static_cast<double>(a.size() + b.size()) - shared);
}

TEST(WordProblem, AStoryTellsTheNumbersOfItsExpressionAndNoOthers) {
  for (std::span<const WordTemplate> templates : {training_templates(), held_out_templates()}) {
    for (const WordTemplate& one : templates) {
      std::set<char> told, used;
      std::string_view text = one.text;
      for (size_t i = 0; i + 2 < text.size(); ++i)
        if (text[i] == '{' && text[i + 2] == '}') told.insert(text[i + 1]);
      for (char c : std::string_view(one.expression))
        if (std::isalpha(static_cast<unsigned char>(c))) used.insert(c);
      EXPECT_EQ(told, used) << one.text << " " << one.expression;
    }
  }
}

TEST(WordProblem, TheNumbersOfTheExpressionStandInTheStoryAndTheValueIsTheCalculators) {
  for (std::span<const WordTemplate> templates : {training_templates(), held_out_templates()}) {
    for (const WordTemplate& one : templates) {
      for (uint64_t i = 0; i < 200; ++i) {
        RandomStream random(StreamKey{.run_seed = i});
        WordProblem problem = fill_template(one, random);
        ASSERT_EQ(problem.question.find_first_of("{}"), std::string::npos) << problem.question;
        ASSERT_EQ(calculate(problem.expression).content, std::to_string(problem.value));
        ASSERT_GT(problem.value, 0) << problem.expression;
        ASSERT_EQ(problem.expression.find_first_not_of("0123456789+-*()"), std::string::npos);
        size_t end = 0;
        for (size_t at = 0;
             (at = problem.expression.find_first_of("0123456789", end)) != std::string::npos;) {
          end = std::min(problem.expression.find_first_not_of("0123456789", at), problem.expression.size());
          ASSERT_NE(problem.question.find(problem.expression.substr(at, end - at)), std::string::npos)
              << problem.question << " " << problem.expression;
        }
      }
    }
  }
}

TEST(WordProblem, HeldOutTemplatesAreOtherStories) {
  std::set<std::string> stories;
  for (const WordTemplate& one : training_templates()) stories.insert(one.text);
  EXPECT_EQ(stories.size(), training_templates().size());
  EXPECT_GE(stories.size(), 150u);
  for (const WordTemplate& held_out : held_out_templates()) {
    EXPECT_TRUE(stories.insert(held_out.text).second) << held_out.text;
    for (const WordTemplate& one : training_templates())
      EXPECT_LT(likeness(words(held_out), words(one)), 0.5) << held_out.text << "\n" << one.text;
  }
}

// What is to be carried over is how a story is told, not an operation that no training story has.
TEST(WordProblem, EveryHeldOutOperationHasSeveralTrainingStories) {
  for (const WordTemplate& held_out : held_out_templates()) {
    auto same = std::ranges::count_if(training_templates(), [&held_out](const WordTemplate& one) {
      return operations(one.expression) == operations(held_out.expression);
    });
    EXPECT_GE(same, 5) << held_out.text;
  }
}

TEST(WordProblems, TasksAreAPureFunctionOfSeedAndOrdinal) {
  auto tasks = kind()->training_tasks(7);
  std::map<uint64_t, TaskRow> backwards;
  for (uint64_t i = 200; i-- > 0;) backwards[i] = tasks->task(i);
  std::set<std::string> prompts;
  for (uint64_t i = 0; i < 200; ++i) {
    TaskRow row = kind()->training_tasks(7)->task(i);
    EXPECT_EQ(row.id, "train/" + std::to_string(i));
    EXPECT_EQ(row.fields, backwards[i].fields);
    EXPECT_EQ(calculate(row.fields.at("expression").as_string()).content,
              std::to_string(row.fields.at("answer").as_int()));
    prompts.insert(row.fields.at("prompt").as_string());
  }
  EXPECT_GT(prompts.size(), 195u);
  EXPECT_NE(kind()->training_tasks(8)->task(3).fields, backwards[3].fields);
  EXPECT_FALSE(tasks->epoch_size());
}

TEST(WordProblems, HeldOutProblemsHaveTheirOwnSeedAndComeFromEachTemplateAlike) {
  auto tasks = kind(Json::object({{"evaluation_size", 64}}))->evaluation_tasks();
  ASSERT_EQ(tasks->epoch_size(), 64u);
  std::map<std::string, int> counts, expected;
  std::set<std::string> prompts;
  for (uint64_t i = 0; i < 64; ++i) {
    ++counts[operations(tasks->task(i).fields.at("expression").as_string())];
    prompts.insert(tasks->task(i).fields.at("prompt").as_string());
    EXPECT_EQ(tasks->task(i).fields, tasks->task(i + 64).fields);
  }
  for (const WordTemplate& one : held_out_templates())
    expected[operations(one.expression)] += static_cast<int>(64 / held_out_templates().size());
  EXPECT_EQ(counts, expected);
  EXPECT_EQ(prompts.size(), 64u);
  EXPECT_NE(kind(Json::object({{"evaluation_seed", 5}}))->evaluation_tasks()->task(0).fields,
            tasks->task(0).fields);
}

TEST(WordProblems, DemonstrationsCallTheCalculatorAndSayItsResult) {
  auto made = kind();
  auto tasks = made->training_tasks(4);
  for (uint64_t i = 0; i < 300; ++i) {
    std::vector<Message> messages = made->demonstration(i, 4)->messages;
    ASSERT_EQ(messages.size(), 4u);
    EXPECT_EQ(messages[0].role, Role::kUser);
    ASSERT_EQ(messages[1].tool_calls.size(), 1u);
    EXPECT_EQ(messages[1].tool_calls[0].name, "calculator");
    std::string expression = messages[1].tool_calls[0].arguments.at("expression").as_string();
    EXPECT_EQ(messages[2].role, Role::kTool);
    EXPECT_EQ(messages[2].content, calculate(expression).content);
    EXPECT_EQ(messages[3].content, "The answer is " + messages[2].content + ".");
    EXPECT_NE(messages[0].content, tasks->task(i).fields.at("prompt").as_string());
  }
  EXPECT_EQ(made->demonstration(3, 4)->messages, kind()->demonstration(3, 4)->messages);
  EXPECT_NE(made->demonstration(3, 4)->messages, made->demonstration(3, 5)->messages);
}

TEST(WordProblems, OffersTheCalculator) {
  auto environment = kind()->make(test_pool());
  ASSERT_EQ(environment->tools().size(), 1u);
  EXPECT_EQ(environment->tools()[0]->schema().name, "calculator");
}

TEST(WordProblems, WrongOptionsAreNamed) {
  EXPECT_EQ(error_of(Json::object({{"evaluation_size", 0}})),
            "environment 'word_problems': evaluation_size must be at least 1 and at most 100000, but is 0.");
  EXPECT_EQ(error_of(Json::object({{"evaluation_sed", 3}})),
            "environment 'word_problems': there is no key evaluation_sed; did you mean evaluation_seed?");
}

}  // namespace
}  // namespace stoker
