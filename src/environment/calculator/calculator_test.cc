#include "environment/calculator/calculator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "async/run.h"
#include "async/simulated_executor.h"
#include "base/random.h"
#include "environment/calculator/expression.h"

namespace stoker {
namespace {

std::string say(std::string_view expression) { return calculate(expression).content; }

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

TEST(Calculator, FollowsPrecedence) {
  EXPECT_EQ(say("37*48+12"), "1788");
  EXPECT_EQ(say("2+3*4"), "14");
  EXPECT_EQ(say("(2+3)*4"), "20");
  EXPECT_EQ(say("10-4-3"), "3");
  EXPECT_EQ(say("8/4/2"), "1");
  EXPECT_EQ(say("2**3**2"), "512");
  EXPECT_EQ(say("-2**2"), "-4");
  EXPECT_EQ(say("(-2)**2"), "4");
  EXPECT_EQ(say("2**-1"), "0.5");
  EXPECT_EQ(say("2*-3"), "-6");
  EXPECT_EQ(say("--3"), "3");
  EXPECT_EQ(say("3-+-2"), "5");
  EXPECT_EQ(say("-(1+2)"), "-3");
}

TEST(Calculator, ReadsAllSpellings) {
  EXPECT_EQ(say("6 × 7"), "42");
  EXPECT_EQ(say("6·7"), "42");
  EXPECT_EQ(say("8÷2"), "4");
  EXPECT_EQ(say("8−9"), "-1");
  EXPECT_EQ(say("2^10"), "1024");
  EXPECT_EQ(say(" \t1 +\n1\r"), "2");
  EXPECT_EQ(say(".5+5."), "5.5");
  EXPECT_EQ(say("1e3+2E-1"), "1000.2");
  EXPECT_EQ(say("007"), "7");
}

TEST(Calculator, IsExactWithinItsRange) {
  EXPECT_EQ(say("0.1+0.2"), "0.3");
  EXPECT_EQ(say("1/3*3"), "1");
  EXPECT_EQ(say("1/3"), "0.333333333333");
  EXPECT_EQ(say("2/3"), "0.666666666667");
  EXPECT_EQ(say("10/4"), "2.5");
  EXPECT_EQ(say("-10/4"), "-2.5");
  EXPECT_EQ(say("1.10"), "1.1");
  EXPECT_EQ(say("9007199254740993+0"), "9007199254740993");  // no double holds it
  EXPECT_EQ(say("2**126"), "85070591730234615865843651857942052864");
  EXPECT_EQ(say("123456789012345678*987654321098765432"), "121932631137021794322511812221002896");
  EXPECT_EQ(say("0.000001*1000000"), "1");
  EXPECT_EQ(say("(1/3)**20*3**20"), "1");
}

TEST(Calculator, RoundsBeyondItsRange) {
  EXPECT_EQ(say("10**40"), "1e+40");
  EXPECT_EQ(say("10**40/10**38"), "100");
  EXPECT_EQ(say("2**0.5"), "1.41421356237");
  EXPECT_EQ(say("4**0.5"), "2");
  EXPECT_EQ(say("2**-200"), "6.22301527786e-61");
  EXPECT_EQ(say("123456789012345678901234567890123456789012"), "1.23456789012e+41");
  EXPECT_EQ(say("1e-400"), "0");
  EXPECT_EQ(say("0-10**40"), "-1e+40");
}

TEST(Calculator, ReachesTheEdgesOf127Bits) {
  EXPECT_EQ(say("170141183460469231731687303715884105727"), "170141183460469231731687303715884105727");
  EXPECT_EQ(say("-170141183460469231731687303715884105727"), "-170141183460469231731687303715884105727");
  EXPECT_EQ(say("170141183460469231731687303715884105727+1"), "1.7014118346e+38");
  EXPECT_EQ(say("-170141183460469231731687303715884105727-1"), "-1.7014118346e+38");
  EXPECT_EQ(say("(-1)**170141183460469231731687303715884105727"), "-1");
  EXPECT_EQ(say("1**-170141183460469231731687303715884105727"), "1");
  EXPECT_EQ(say("0**170141183460469231731687303715884105727"), "0");
}

TEST(Calculator, ErrorsAreShortAndNameThePosition) {
  EXPECT_EQ(say("1/0"), "error: division by zero");
  EXPECT_EQ(say("1/(2-2)"), "error: division by zero");
  EXPECT_EQ(say("0**-1"), "error: division by zero");
  EXPECT_EQ(say("10**400"), "error: overflow");
  EXPECT_EQ(say("1e400"), "error: overflow");
  EXPECT_EQ(say("10**300*10**300"), "error: overflow");
  EXPECT_EQ(say("9**9**9**9"), "error: overflow");
  EXPECT_EQ(say("(-8)**0.5"), "error: not a real number");
  EXPECT_EQ(say(""), "error: no expression");
  EXPECT_EQ(say("12+"), "error: the expression ends too early");
  EXPECT_EQ(say("(1+2"), "error: missing ')' at the end");
  EXPECT_EQ(say("1+2)"), "error: unexpected ')' at position 4");
  EXPECT_EQ(say("1+*2"), "error: unexpected '*' at position 3");
  EXPECT_EQ(say("2×÷3"), "error: unexpected '÷' at position 3");
  EXPECT_EQ(say("12 34"), "error: unexpected number at position 4");
  EXPECT_EQ(say("2(3)"), "error: unexpected '(' at position 2");
  EXPECT_EQ(say("2x3"), "error: unexpected 'x' at position 2");
  EXPECT_EQ(say("1,234"), "error: unexpected ',' at position 2");
  EXPECT_EQ(say("1\x01"), "error: unexpected character at position 2");
  EXPECT_EQ(say("é"), "error: unexpected character at position 1");
  EXPECT_EQ(say("."), "error: unexpected '.' at position 1");
  EXPECT_EQ(say("1..2"), "error: unexpected number at position 3");
  EXPECT_EQ(say("()"), "error: unexpected ')' at position 2");
  EXPECT_TRUE(calculate("1/0").is_error);
  EXPECT_FALSE(calculate("1/1").is_error);
}

TEST(Calculator, HostileInputsAreBounded) {
  EXPECT_EQ(say(repeated("(", 64) + "1" + repeated(")", 64)), "1");
  EXPECT_EQ(say(repeated("(", 65) + "1" + repeated(")", 65)), "error: more than 64 levels");
  EXPECT_EQ(say(repeated("(", 1000)), "error: more than 64 levels");
  EXPECT_EQ(say(repeated("1**", 64) + "1"), "1");
  EXPECT_EQ(say(repeated("1**", 65) + "1"), "error: more than 64 levels");
  EXPECT_EQ(say(repeated("-", 999) + "1"), "-1");
  EXPECT_EQ(say(repeated("9", 300)), "1e+300");
  EXPECT_EQ(say("0." + repeated("0", 990) + "1"), "0");
  EXPECT_EQ(say("1e" + repeated("9", 900)), "error: overflow");
  EXPECT_EQ(say("0e" + repeated("9", 900)), "0");
  EXPECT_EQ(say(repeated("1", 1001)), "error: more than 1000 bytes");
  EXPECT_EQ(say(std::string(50'000'000, '(')), "error: more than 1000 bytes");
}

TEST(Calculator, MatchesTheRecordedOracle) {
  std::ifstream file(STOKER_SOURCE_DIR "/src/environment/calculator/testdata/expressions.txt");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos);
    EXPECT_EQ(say(line.substr(0, tab)), line.substr(tab + 1)) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 400);
}

// The plain twin: a tree of integers evaluated directly, and its text with every parenthesis written.
struct Tree {
  std::string text;
  int64_t value;
};

Tree random_tree(RandomStream& random, int depth) {
  if (depth == 0 || random.below(4) == 0) {
    auto value = static_cast<int64_t>(random.below(1000));
    return {std::to_string(value), value};
  }
  Tree left = random_tree(random, depth - 1);
  Tree right = random_tree(random, depth - 1);
  switch (random.below(4)) {
    case 0:
      return {"(" + left.text + "+" + right.text + ")", left.value + right.value};
    case 1:
      return {"(" + left.text + "-" + right.text + ")", left.value - right.value};
    case 2:
      return {"-(" + left.text + ")", -left.value};
    default:
      return {"(" + left.text + "*" + right.text + ")", left.value * right.value};
  }
}

TEST(Calculator, MatchesAPlainTwinOnRandomTrees) {
  RandomStream random(StreamKey{.run_seed = 1});
  for (int i = 0; i < 3000; ++i) {
    Tree tree = random_tree(random, 2);
    ASSERT_EQ(say(tree.text), std::to_string(tree.value)) << tree.text;
  }
}

TEST(Calculator, RandomTextNeverCrashesAndErrorsStayShort) {
  RandomStream random(StreamKey{.run_seed = 2});
  const std::string_view letters = "0123456789.+-*/()^e \xC3\x97\xE2x";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = random.below(30); n > 0; --n) {
      text.push_back(random.below(20) == 0 ? static_cast<char>(random.below(256))
                                           : letters[random.below(letters.size())]);
    }
    ToolResult result = calculate(text);
    ASSERT_LE(result.content.size(), 60u) << text;
    ASSERT_EQ(result.is_error, result.content.starts_with("error: ")) << text;
    // A result is an expression itself, with the same value.
    if (!result.is_error && result.content.find_first_of(".e") == std::string::npos) {
      ASSERT_EQ(say(result.content), result.content) << text;
    }
  }
}

TEST(Calculator, ToolFollowsItsSchema) {
  CalculatorTool tool;
  EXPECT_EQ(tool.schema().name, "calculator");
  EXPECT_EQ(tool.schema().parameters.dump(),
            R"({"type":"object","properties":{"expression":{"type":"string"}},)"
            R"("required":["expression"],"additionalProperties":false})");
  SimulatedExecutor executor(1);
  Json arguments = Json::object({{"expression", "37*48+12"}});
  Result<ToolResult> result = run(executor, tool.call(arguments));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->content, "1788");
  EXPECT_FALSE(result->is_error);
}

}  // namespace
}  // namespace stoker
