#include "environment/arithmetic/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <map>
#include <set>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "environment/arithmetic/problem.h"
#include "environment/calculator/calculator.h"
#include "environment/testing/test_pool.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

const ProblemDifficulty kDemo{{25, 40, 35}, {5, 35, 30, 15, 15}};

std::unique_ptr<EnvironmentKind> kind(Json options = Json::object()) {
  return make_environment_kind("arithmetic", options);
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

std::set<std::string> held_out(const EnvironmentKind& kind) {
  auto tasks = kind.evaluation_tasks();
  std::set<std::string> expressions;
  for (uint64_t i = 0; i < *tasks->epoch_size(); ++i) {
    expressions.insert(tasks->task(i).fields.at("expression").as_string());
  }
  return expressions;
}

size_t count_digits(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return c >= '0'; }));
}

TEST(ArithmeticProblem, ValuesAreThoseOfTheCalculator) {
  RandomStream random(StreamKey{.run_seed = 1});
  const ProblemDifficulty hard{{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
  for (int i = 0; i < 5000; ++i) {
    ArithmeticProblem problem = draw_problem(i % 2 == 0 ? kDemo : hard, random);
    ASSERT_EQ(calculate(problem.expression).content, std::to_string(problem.value)) << problem.expression;
    ASSERT_THAT(problem.question, HasSubstr(problem.expression));
    ASSERT_EQ(problem.expression.find(' '), std::string::npos);
  }
}

TEST(ArithmeticProblem, FormsDigitsAndQuestionsComeInTheirShares) {
  RandomStream random(StreamKey{.run_seed = 2});
  constexpr int kDraws = 20000;
  std::map<std::string, int> shapes;
  std::map<std::string, int> questions;
  std::map<size_t, int> digits;
  int one_operand = 0;
  for (int i = 0; i < kDraws; ++i) {
    ArithmeticProblem problem = draw_problem(kDemo, random);
    std::string shape;
    for (char c : problem.expression) {
      char symbol = c >= '0' && c <= '9' ? 'n' : c;
      if (symbol != 'n' || !shape.ends_with('n')) shape.push_back(symbol);
    }
    ++shapes[shape];
    std::string question = problem.question;
    question.replace(question.find(problem.expression), problem.expression.size(), "{}");
    ++questions[question];
    if (shape == "n") {
      ++one_operand;
      ++digits[count_digits(problem.expression)];
    }
  }
  auto near = [&](int count, double share) { EXPECT_NEAR(count / double{kDraws}, share, 0.012); };
  near(shapes["n"], 0.05);
  near(shapes["n+n"] + shapes["n-n"] + shapes["n*n"], 0.35);
  near(shapes["n+n"], 0.35 / 3);
  near(shapes["(n+n)*n"], 0.15);
  near(shapes["n*(n+n)"], 0.15);
  EXPECT_EQ(shapes.size(), 1u + 3 + 9 + 2);
  EXPECT_EQ(questions.size(), 6u);
  for (const auto& [question, count] : questions) near(count, 1.0 / 6);
  EXPECT_NEAR(digits[1] / double(one_operand), 0.25, 0.05);
  EXPECT_NEAR(digits[2] / double(one_operand), 0.40, 0.05);
  EXPECT_NEAR(digits[3] / double(one_operand), 0.35, 0.05);
}

TEST(ArithmeticProblem, WeightsChangeWhatIsDrawn) {
  RandomStream random(StreamKey{.run_seed = 3});
  for (int i = 0; i < 200; ++i) {
    ArithmeticProblem one = draw_problem({{0, 0, 1}, {1, 0, 0, 0, 0}}, random);
    ASSERT_EQ(one.expression.size(), 3u);
    ArithmeticProblem sum = draw_problem({{1}, {0, 0, 0, 1, 0}}, random);
    ASSERT_EQ(sum.expression.size(), 7u);
    ASSERT_EQ(sum.expression.front(), '(');
  }
}

TEST(ArithmeticProblem, CorruptedExpressionsHaveOneMistakeAndAValue) {
  RandomStream random(StreamKey{.run_seed = 4});
  std::set<int> length_changes;
  int dropped_parentheses = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string expression = draw_problem(kDemo, random).expression;
    std::string changed = corrupt_expression(expression, random);
    ASSERT_NE(changed, expression);
    ASSERT_FALSE(calculate(changed).is_error) << expression << " -> " << changed;
    length_changes.insert(static_cast<int>(changed.size()) - static_cast<int>(expression.size()));
    dropped_parentheses +=
        expression.find('(') != std::string::npos && changed.find('(') == std::string::npos;
  }
  EXPECT_THAT(length_changes, ::testing::ElementsAre(-2, -1, 0, 1));
  EXPECT_GT(dropped_parentheses, 100);
}

TEST(ArithmeticProblem, WrongNumbersLookLikeTheRightOne) {
  RandomStream random(StreamKey{.run_seed = 5});
  for (int i = 0; i < 5000; ++i) {
    int64_t value = draw_problem(kDemo, random).value;
    int64_t wrong = wrong_number(value, random);
    std::string right_text = std::to_string(value);
    std::string wrong_text = std::to_string(wrong);
    ASSERT_NE(wrong, value);
    ASSERT_EQ(wrong_text.size(), right_text.size()) << value << " " << wrong;
    if (value != 0) ASSERT_EQ(wrong < 0, value < 0);
    if (count_digits(right_text) >= 3) {
      size_t first = value < 0 ? 1 : 0;
      ASSERT_EQ(wrong_text[first], right_text[first]) << value << " " << wrong;
    }
  }
  EXPECT_NE(wrong_number(0, random), 0);
  EXPECT_LT(wrong_number(-5, random), 0);
}

TEST(Arithmetic, TasksAreAPureFunctionOfSeedAndOrdinal) {
  auto forwards = kind()->training_tasks(7);
  auto backwards = kind()->training_tasks(7);
  auto other = kind()->training_tasks(8);
  std::vector<TaskRow> rows;
  for (uint64_t i = 0; i < 100; ++i) rows.push_back(forwards->task(i));
  int equal = 0;
  std::set<std::string> ids;
  for (uint64_t i = 100; i-- > 0;) {
    EXPECT_EQ(backwards->task(i).fields, rows[i].fields);
    EXPECT_EQ(backwards->task(i).id, rows[i].id);
    equal += other->task(i).fields == rows[i].fields;
    ids.insert(rows[i].id);
  }
  EXPECT_LT(equal, 5);
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(forwards->epoch_size(), std::nullopt);
}

TEST(Arithmetic, TheTaskStreamStaysWhatItIs) {
  auto tasks = kind()->training_tasks(1);
  EXPECT_EQ(tasks->task(0).fields.dump(),
            R"({"prompt":"Calculate 27-314","expression":"27-314","answer":-287})");
  EXPECT_EQ(kind()->evaluation_tasks()->task(0).fields.dump(),
            R"({"prompt":"6+62+583 = ?","expression":"6+62+583","answer":651})");
}

TEST(Arithmetic, HeldOutExpressionsOccurNowhereElse) {
  for (const char* demonstrations : {"clean", "imperfect"}) {
    auto made = kind(
        Json::object({{"demonstrations", demonstrations}, {"direct_share", 0.3}, {"corrupted_share", 0.4}}));
    std::set<std::string> held = held_out(*made);
    EXPECT_EQ(held.size(), 256u);
    auto tasks = made->training_tasks(1);
    for (uint64_t i = 0; i < 20000; ++i) {
      ASSERT_FALSE(held.contains(tasks->task(i).fields.at("expression").as_string()));
      const std::vector<Message> messages = made->demonstration(i, 1)->messages;
      for (const Message& message : messages) {
        for (const ToolCall& call : message.tool_calls) {
          ASSERT_FALSE(held.contains(call.arguments.at("expression").as_string()));
        }
        if (message.role != Role::kUser) continue;
        for (const char* end : {"?", ".", " ="}) {
          size_t stop = message.content.rfind(end);
          size_t start = message.content.find_first_of("0123456789(");
          ASSERT_FALSE(held.contains(message.content.substr(start, stop - start)));
        }
      }
    }
  }
}

TEST(Arithmetic, SmallDomainsRedrawAndTooSmallOnesAreRefused) {
  // 90 one-operand expressions of two digits, 60 of them held out.
  auto small = kind(Json::object({{"digit_weights", Json::array({0, 1})},
                                  {"form_weights", Json::array({1, 0, 0, 0, 0})},
                                  {"evaluation_size", 60}}));
  std::set<std::string> held = held_out(*small);
  EXPECT_EQ(held.size(), 60u);
  std::set<std::string> trained;
  auto tasks = small->training_tasks(3);
  for (uint64_t i = 0; i < 3000; ++i) trained.insert(tasks->task(i).fields.at("expression").as_string());
  EXPECT_EQ(trained.size(), 30u);
  for (const std::string& expression : trained) EXPECT_FALSE(held.contains(expression));
  EXPECT_THAT(error_of(Json::object(
                  {{"digit_weights", Json::array({1})}, {"form_weights", Json::array({1, 0, 0, 0, 0})}})),
              HasSubstr("give only 9 different expressions"));
  EXPECT_THAT(error_of(Json::object({{"digit_weights", Json::array({1})},
                                     {"form_weights", Json::array({1, 0, 0, 0, 0})},
                                     {"evaluation_size", 9}})),
              HasSubstr("leaves too few for training"));
}

TEST(Arithmetic, TheHeldOutSetHasItsOwnSeed) {
  EXPECT_EQ(held_out(*kind()), held_out(*kind(Json::object({{"demonstrations", "imperfect"}}))));
  EXPECT_NE(held_out(*kind()), held_out(*kind(Json::object({{"evaluation_seed", 5}}))));
  auto tasks = kind()->evaluation_tasks();
  EXPECT_EQ(tasks->epoch_size(), 256u);
  EXPECT_EQ(tasks->task(3).fields, tasks->task(259).fields);
}

TEST(Arithmetic, CleanDemonstrationsUseTheTool) {
  auto made = kind();
  for (uint64_t i = 0; i < 500; ++i) {
    std::vector<Message> messages = made->demonstration(i, 4)->messages;
    ASSERT_EQ(messages.size(), 4u);
    EXPECT_EQ(messages[0].role, Role::kUser);
    ASSERT_EQ(messages[1].tool_calls.size(), 1u);
    EXPECT_EQ(messages[1].content, "");
    EXPECT_EQ(messages[1].tool_calls[0].name, "calculator");
    std::string expression = messages[1].tool_calls[0].arguments.at("expression").as_string();
    EXPECT_THAT(messages[0].content, HasSubstr(expression));
    EXPECT_EQ(messages[2].role, Role::kTool);
    EXPECT_EQ(messages[2].content, calculate(expression).content);
    EXPECT_EQ(messages[3].content, "The answer is " + messages[2].content + ".");
  }
  EXPECT_EQ(made->demonstration(3, 4)->messages, kind()->demonstration(3, 4)->messages);
  EXPECT_NE(made->demonstration(3, 4)->messages, made->demonstration(3, 5)->messages);
}

TEST(Arithmetic, ImperfectDemonstrationsComeInTheirShares) {
  auto made = kind(Json::object({{"demonstrations", "imperfect"}}));
  constexpr int kDraws = 10000;
  int direct = 0, corrupted = 0, misreported = 0, right = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    std::vector<Message> messages = made->demonstration(i, 1)->messages;
    const std::string& question = messages[0].content;
    if (messages.size() == 2) {
      ++direct;
      ASSERT_TRUE(messages[1].content.starts_with("The answer is "));
      continue;
    }
    std::string expression = messages[1].tool_calls[0].arguments.at("expression").as_string();
    ASSERT_EQ(messages[2].content, calculate(expression).content);
    size_t at = question.find(expression);
    auto part_of_number = [&](size_t i) {
      return i < question.size() && (std::isdigit(question[i]) || std::strchr("+-*()", question[i]));
    };
    bool copied = at != std::string::npos && !part_of_number(at + expression.size()) &&
                  (at == 0 || !part_of_number(at - 1));
    bool reported = messages[3].content == "The answer is " + messages[2].content + ".";
    corrupted += !copied;
    misreported += copied && !reported;
    right += copied && reported;
    if (!copied) ASSERT_TRUE(reported);
  }
  EXPECT_NEAR(direct / double{kDraws}, 0.60, 0.015);
  EXPECT_NEAR(corrupted / double{kDraws}, 0.08, 0.01);
  EXPECT_NEAR(misreported / double{kDraws}, 0.04, 0.01);
  EXPECT_NEAR(right / double{kDraws}, 0.28, 0.015);
}

TEST(Arithmetic, SharesAreKnobs) {
  auto made = kind(Json::object({{"demonstrations", "imperfect"},
                                 {"direct_share", 1.0},
                                 {"corrupted_share", 0},
                                 {"misreported_share", 0}}));
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(made->demonstration(i, 1)->messages.size(), 2u);
}

TEST(Arithmetic, WrongOptionsAreNamed) {
  EXPECT_EQ(error_of(Json::object({{"evaluation_sise", 3}})),
            "environment 'arithmetic': there is no key evaluation_sise; did you mean evaluation_size?");
  EXPECT_EQ(error_of(Json::object({{"evaluation_size", 0}})),
            "environment 'arithmetic': evaluation_size must be at least 1 and at most 100000, but is 0.");
  EXPECT_THAT(error_of(Json::object({{"demonstrations", "perfect"}})),
              HasSubstr("environment 'arithmetic': demonstrations must be one of clean, imperfect, but is "
                        "\"perfect\"; did you mean \"imperfect\"?"));
  EXPECT_EQ(error_of(Json::object({{"digit_weights", Json::array({1, 1, 1, 1, 1, 1, 1})}})),
            "environment 'arithmetic': digit_weights must hold 1 to 6 weights, not all 0.");
  EXPECT_EQ(error_of(Json::object({{"form_weights", Json::array({0, 0, 0, 0, 0})}})),
            "environment 'arithmetic': form_weights must hold 5 weights, not all 0.");
  EXPECT_THAT(error_of(Json::object({{"digit_weights", Json::array({-1, 3})}})), HasSubstr("at least 0"));
  EXPECT_THAT(error_of(Json::object({{"direct_share", 0.9}, {"corrupted_share", 0.2}})),
              HasSubstr("must not sum to more than 1"));
  EXPECT_THAT(error_of(Json::array()), HasSubstr("must be a table"));
  EXPECT_THAT(error_of(Json::object({{"direct_share", nullptr}})), HasSubstr("direct_share"));
}

// The reward of an episode that ends with this assistant text.
RewardResult score(const std::string& text, StopReason reason = StopReason::kStopToken) {
  auto rewards = kind()->rewards();
  TaskRow task{"train/0", Json::object({{"prompt", "What is 37*48+12?"}, {"answer", 1788}})};
  std::vector<Message> messages = {{.role = Role::kUser, .content = "What is 37*48+12?"},
                                   {.role = Role::kAssistant, .content = text}};
  EpisodeRecord record;
  record.trajectory.begin_sampled(0);
  record.trajectory.append_sampled(1, -1.0f, 0);
  record.trajectory.close_sampled(reason);
  SimulatedExecutor executor(1);
  Result<RewardResult> result = run(executor, rewards.front()->score({task, messages, record, test_pool()}));
  return result.value();
}

TEST(Arithmetic, RewardsTheLastNumberOfTheAnswer) {
  EXPECT_EQ(score("The answer is 1788.").reward, 1.0);
  EXPECT_TRUE(score("The answer is 1788.").success);
  EXPECT_EQ(score("1788").reward, 1.0);
  EXPECT_EQ(score("37*48+12 = 1,788").reward, 1.0);
  EXPECT_EQ(score("The answer is 1787.").reward, 0.0);
  EXPECT_FALSE(score("The answer is 1787.").success);
  EXPECT_EQ(score("The answer is -1788.").reward, 0.0);
  EXPECT_EQ(score("1788 or 1789").reward, 0.0);
  EXPECT_EQ(score("The answer is 1788.5").reward, 0.0);
  EXPECT_EQ(score("I do not know").reward, 0.0);
  EXPECT_EQ(score("").reward, 0.0);
  EXPECT_EQ(score("The answer is 1788", StopReason::kLength).reward, 0.0);
}

TEST(Arithmetic, AnEpisodeAsksOneQuestion) {
  auto made = kind();
  auto environment = made->make(test_pool());
  TaskRow task = made->training_tasks(1)->task(5);
  SimulatedExecutor executor(1);
  Result<Observation> first = run(executor, environment->reset(task, 9));
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->messages.size(), 1u);
  EXPECT_EQ(first->messages[0],
            (Message{.role = Role::kUser, .content = task.fields.at("prompt").as_string()}));
  EXPECT_FALSE(first->done);
  ASSERT_EQ(environment->tools().size(), 1u);
  EXPECT_EQ(environment->tools()[0]->schema().name, "calculator");
  Action action{.text = "5", .content = "5"};
  Result<Observation> second = run(executor, environment->step(action));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->done);
  EXPECT_TRUE(second->messages.empty());
  run(executor, environment->close());
}

}  // namespace
}  // namespace stoker
