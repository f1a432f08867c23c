#include "environment/arithmetic/problem.h"

#include <fmt/format.h>

#include <numeric>
#include <string_view>

#include "environment/ascii.h"
#include "environment/calculator/expression.h"

namespace stoker {
namespace {

constexpr std::string_view kQuestions[] = {"What is {}?",     "Compute {}.", "Calculate {}",
                                           "How much is {}?", "{} = ?",      "Please work out {}."};
constexpr std::string_view kOperators = "+-*";

enum class Form { kOne, kTwo, kThree, kSumTimes, kTimesSum };

size_t draw_weighted(const std::vector<double>& weights, RandomStream& random) {
  double point = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    if (point < weights[i]) return i;
    point -= weights[i];
  }
  return last;  // rounding took the point to the end
}

int64_t draw_operand(const std::vector<double>& digit_weights, RandomStream& random) {
  int64_t lowest = 1;
  for (size_t digits = draw_weighted(digit_weights, random); digits > 0; --digits) lowest *= 10;
  return lowest + static_cast<int64_t>(random.below(static_cast<uint64_t>(9 * lowest)));
}

char draw_operator(RandomStream& random) { return kOperators[random.below(kOperators.size())]; }

int64_t apply(int64_t a, char symbol, int64_t b) {
  if (symbol == '+') return a + b;
  return symbol == '-' ? a - b : a * b;
}

// a ? b ? c by the precedence of the operators.
int64_t apply(int64_t a, char first, int64_t b, char second, int64_t c) {
  if (second == '*' && first != '*') return apply(a, first, b * c);
  return apply(apply(a, first, b), second, c);
}

char draw_digit(RandomStream& random) { return static_cast<char>('0' + random.below(10)); }

// Positions of digits, or of operators.
std::vector<size_t> positions(const std::string& text, bool digits) {
  std::vector<size_t> found;
  for (size_t i = 0; i < text.size(); ++i) {
    bool matches = digits ? is_ascii_digit(text[i]) : kOperators.find(text[i]) != std::string_view::npos;
    if (matches) found.push_back(i);
  }
  return found;
}

// One drawn edit; the text itself when the drawn kind of edit has nothing to act on.
std::string edited(std::string text, RandomStream& random) {
  std::vector<size_t> digits = positions(text, true);
  std::vector<size_t> operators = positions(text, false);
  size_t at = digits[random.below(digits.size())];
  switch (random.below(5)) {
    case 0:
      text[at] = draw_digit(random);
      break;
    case 1:
      text.erase(at, 1);
      break;
    case 2:
      text.insert(at + random.below(2), 1, draw_digit(random));
      break;
    case 3:
      if (!operators.empty()) text[operators[random.below(operators.size())]] = draw_operator(random);
      break;
    default:
      std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
  }
  return text;
}

}  // namespace

ArithmeticProblem draw_problem(const ProblemDifficulty& difficulty, RandomStream& random) {
  auto form = static_cast<Form>(draw_weighted(difficulty.form_weights, random));
  int64_t a = draw_operand(difficulty.digit_weights, random);
  ArithmeticProblem problem;
  if (form == Form::kOne) {
    problem.expression = std::to_string(a);
    problem.value = a;
  } else if (form == Form::kTwo) {
    int64_t b = draw_operand(difficulty.digit_weights, random);
    char symbol = draw_operator(random);
    problem.expression = fmt::format("{}{}{}", a, symbol, b);
    problem.value = apply(a, symbol, b);
  } else {
    int64_t b = draw_operand(difficulty.digit_weights, random);
    int64_t c = draw_operand(difficulty.digit_weights, random);
    if (form == Form::kThree) {
      char first = draw_operator(random);
      char second = draw_operator(random);
      problem.expression = fmt::format("{}{}{}{}{}", a, first, b, second, c);
      problem.value = apply(a, first, b, second, c);
    } else if (form == Form::kSumTimes) {
      problem.expression = fmt::format("({}+{})*{}", a, b, c);
      problem.value = (a + b) * c;
    } else {
      problem.expression = fmt::format("{}*({}+{})", a, b, c);
      problem.value = a * (b + c);
    }
  }
  std::string_view question = kQuestions[random.below(std::size(kQuestions))];
  problem.question = fmt::format(fmt::runtime(question), problem.expression);
  return problem;
}

std::string corrupt_expression(const std::string& expression, RandomStream& random) {
  while (true) {
    std::string changed = edited(expression, random);
    if (changed != expression && evaluate_expression(changed)) return changed;
  }
}

int64_t wrong_number(int64_t value, RandomStream& random) {
  const std::string digits = std::to_string(value < 0 ? -value : value);
  std::string drawn = digits;
  do {
    for (size_t i = digits.size() >= 3 ? 1 : 0; i < digits.size(); ++i) {
      bool leading = i == 0 && digits.size() > 1;
      drawn[i] = leading ? static_cast<char>('1' + random.below(9)) : draw_digit(random);
    }
  } while (drawn == digits || (value < 0 && drawn == "0"));
  int64_t number = std::stoll(drawn);
  return value < 0 ? -number : number;
}

}  // namespace stoker
