#pragma once

#include <string_view>

#include "base/result.h"
#include "environment/calculator/number.h"

namespace stoker {

// Evaluates an arithmetic expression:
//
//   sum      = product { ("+" | "-") product }
//   product  = sign { ("*" | "/") sign }
//   sign     = { "+" | "-" } power
//   power    = operand [ ("**" | "^") sign ]
//   operand  = number | "(" sum ")"
//
// Powers bind tightest and to the right, then signs, products and sums, these to the left: -2**2 is -4,
// 2**3**2 is 512, 8/4/2 is 1. "×" and "·" stand for "*", "÷" for "/", "−" (U+2212) for "-"; blanks are free.
// Numbers are as in CalculatorNumber::parse.
//
// A wrong expression is a Failure whose message is a few words without a full stop, with the position in
// characters from 1: "unexpected ')' at position 5", "division by zero". Reasons: "syntax", "too_long" (over
// kMaxExpressionBytes), "too_deep" (over kMaxExpressionDepth parentheses or powers inside each other), and
// those of CalculatorNumber. Time is linear in the length.
Result<CalculatorNumber> evaluate_expression(std::string_view text);

inline constexpr size_t kMaxExpressionBytes = 1000;
inline constexpr int kMaxExpressionDepth = 64;

}  // namespace stoker
