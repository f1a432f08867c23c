#include "environment/calculator/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

namespace stoker {
namespace {

using Integer = __int128;

constexpr Integer kMaxInteger = static_cast<Integer>(~static_cast<unsigned __int128>(0) >> 1);

Failure overflow() { return {FailureClass::kTool, "overflow", "overflow"}; }
Failure division_by_zero() { return {FailureClass::kTool, "division_by_zero", "division by zero"}; }

// The lowest value is left out, so that every number can be negated.
bool multiply_checked(Integer a, Integer b, Integer& result) {
  return !__builtin_mul_overflow(a, b, &result) && result >= -kMaxInteger;
}
bool add_checked(Integer a, Integer b, Integer& result) {
  return !__builtin_add_overflow(a, b, &result) && result >= -kMaxInteger;
}

Integer greatest_common_divisor(Integer a, Integer b) {
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b != 0) {
    Integer rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

bool ten_to_the(int64_t exponent, Integer& result) {
  result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    if (!multiply_checked(result, 10, result)) return false;
  }
  return true;
}

}  // namespace

CalculatorNumber CalculatorNumber::fraction(Integer numerator, Integer denominator) {
  CalculatorNumber result;
  result.numerator_ = numerator;
  result.denominator_ = denominator;
  return result;
}

Result<CalculatorNumber> CalculatorNumber::rounded(double value) {
  if (!std::isfinite(value)) return overflow();
  CalculatorNumber result;
  result.exact_ = false;
  result.value_ = value;
  return result;
}

double CalculatorNumber::to_double() const {
  return exact_ ? static_cast<double>(numerator_) / static_cast<double>(denominator_) : value_;
}

Result<CalculatorNumber> CalculatorNumber::parse(std::string_view text) {
  size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  int64_t scale = 0;
  if (exponent_at < text.size()) {
    std::string_view digits = text.substr(exponent_at + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    // An exponent past 64 bits is left to the conversion to double below.
    if (std::from_chars(digits.data(), digits.data() + digits.size(), scale).ec != std::errc()) scale = 1000;
    scale = std::clamp<int64_t>(scale, -1000, 1000);
  }
  Integer mantissa = 0;
  Integer factor = 1;
  bool fits = true;
  bool after_point = false;
  for (char c : text.substr(0, exponent_at)) {
    if (c == '.') {
      after_point = true;
      continue;
    }
    fits = fits && multiply_checked(mantissa, 10, mantissa) && add_checked(mantissa, c - '0', mantissa);
    scale -= after_point ? 1 : 0;
  }
  if (fits && mantissa == 0) return CalculatorNumber();
  fits = fits && ten_to_the(scale < 0 ? -scale : scale, factor);
  if (fits && scale >= 0) fits = multiply_checked(mantissa, factor, mantissa);
  if (!fits) return rounded(std::strtod(std::string(text).c_str(), nullptr));
  if (scale >= 0) return fraction(mantissa, 1);
  Integer common = greatest_common_divisor(mantissa, factor);
  return fraction(mantissa / common, factor / common);
}

bool CalculatorNumber::exact_sum(const CalculatorNumber& a, const CalculatorNumber& b,
                                 CalculatorNumber& sum) {
  if (!a.exact_ || !b.exact_) return false;
  Integer common = greatest_common_divisor(a.denominator_, b.denominator_);
  Integer left, right, numerator, denominator;
  if (!multiply_checked(a.numerator_, b.denominator_ / common, left) ||
      !multiply_checked(b.numerator_, a.denominator_ / common, right) ||
      !add_checked(left, right, numerator) ||
      !multiply_checked(a.denominator_ / common, b.denominator_, denominator)) {
    return false;
  }
  Integer divisor = greatest_common_divisor(numerator, denominator);
  sum = fraction(numerator / divisor, denominator / divisor);
  return true;
}

bool CalculatorNumber::exact_product(const CalculatorNumber& a, const CalculatorNumber& b,
                                     CalculatorNumber& product) {
  if (!a.exact_ || !b.exact_) return false;
  Integer first = greatest_common_divisor(a.numerator_, b.denominator_);
  Integer second = greatest_common_divisor(b.numerator_, a.denominator_);
  Integer numerator, denominator;
  if (!multiply_checked(a.numerator_ / first, b.numerator_ / second, numerator) ||
      !multiply_checked(a.denominator_ / second, b.denominator_ / first, denominator)) {
    return false;
  }
  product = fraction(numerator, denominator);
  return true;
}

Result<CalculatorNumber> add(const CalculatorNumber& a, const CalculatorNumber& b) {
  CalculatorNumber sum;
  if (CalculatorNumber::exact_sum(a, b, sum)) return sum;
  return CalculatorNumber::rounded(a.to_double() + b.to_double());
}

Result<CalculatorNumber> subtract(const CalculatorNumber& a, const CalculatorNumber& b) {
  return add(a, b.negated());
}

Result<CalculatorNumber> multiply(const CalculatorNumber& a, const CalculatorNumber& b) {
  CalculatorNumber product;
  if (CalculatorNumber::exact_product(a, b, product)) return product;
  return CalculatorNumber::rounded(a.to_double() * b.to_double());
}

Result<CalculatorNumber> divide(const CalculatorNumber& a, const CalculatorNumber& b) {
  if (b.is_zero()) return division_by_zero();
  if (!b.exact_) return CalculatorNumber::rounded(a.to_double() / b.value_);
  bool negative = b.numerator_ < 0;
  CalculatorNumber inverse = CalculatorNumber::fraction(negative ? -b.denominator_ : b.denominator_,
                                                        negative ? -b.numerator_ : b.numerator_);
  CalculatorNumber quotient;
  if (CalculatorNumber::exact_product(a, inverse, quotient)) return quotient;
  return CalculatorNumber::rounded(a.to_double() / b.to_double());
}

bool CalculatorNumber::to_exponent(Integer& exponent) const {
  exponent = numerator_;
  return exact_ && denominator_ == 1;
}

// Squares at most 127 times; anything but -1, 0 and 1 leaves 127 bits within seven.
bool CalculatorNumber::exact_power(CalculatorNumber base, Integer exponent, CalculatorNumber& result) {
  result = fraction(1, 1);
  while (true) {
    if (exponent % 2 != 0 && !exact_product(result, base, result)) return false;
    exponent /= 2;
    if (exponent == 0) return true;
    if (!exact_product(base, base, base)) return false;
  }
}

Result<CalculatorNumber> power(const CalculatorNumber& base, const CalculatorNumber& exponent) {
  if (base.is_zero() && exponent.to_double() < 0) return division_by_zero();
  Integer times = 0;
  if (exponent.to_exponent(times)) {
    CalculatorNumber result;
    if (CalculatorNumber::exact_power(base, times < 0 ? -times : times, result)) {
      if (times < 0) return divide(CalculatorNumber::fraction(1, 1), result);
      return result;
    }
  }
  double value = std::pow(base.to_double(), exponent.to_double());
  if (std::isnan(value)) return Failure{FailureClass::kTool, "domain", "not a real number"};
  return CalculatorNumber::rounded(value);
}

CalculatorNumber CalculatorNumber::negated() const {
  CalculatorNumber result = *this;
  result.numerator_ = -numerator_;
  result.value_ = -value_;
  return result;
}

std::string CalculatorNumber::to_string() const {
  if (exact_ && denominator_ == 1) return fmt::format("{}", numerator_);
  if (is_zero()) return "0";
  return fmt::format("{:.12g}", to_double());
}

}  // namespace stoker
