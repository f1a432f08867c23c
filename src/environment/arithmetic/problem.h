#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace stoker {

// A question of mental arithmetic: "Compute (12+7)*3.", "(12+7)*3", 57.
struct ArithmeticProblem {
  std::string question;
  std::string expression;
  int64_t value = 0;

  bool operator==(const ArithmeticProblem&) const = default;
};

inline constexpr size_t kMaxOperandDigits = 6;  // so that every value fits 64 bits

// How hard problems are. Weights need not sum to 1.
struct ProblemDifficulty {
  std::vector<double> digit_weights;  // of operands with 1, 2, ... digits; at most kMaxOperandDigits
  std::vector<double> form_weights;   // of a, a?b, a?b?c, (a+b)*c, a*(b+c); ? is +, - or *
};

// Draws a problem. Operands have no leading zeros and are at least 1; expressions hold no blanks.
ArithmeticProblem draw_problem(const ProblemDifficulty& difficulty, RandomStream& random);

// The expression with one mistake, as a model makes them when it copies: a digit changed, deleted or
// inserted, an operator changed, or the parentheses dropped. Always another text, always one that has a
// value.
std::string corrupt_expression(const std::string& expression, RandomStream& random);

// A number that looks like the value and is not: its sign and length, from three digits on its first digit
// too, the rest drawn.
int64_t wrong_number(int64_t value, RandomStream& random);

}  // namespace stoker
