#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace stoker {

// A number of the calculator: an exact fraction as long as numerator and denominator fit 127 bits (integers
// of up to 38 digits), a double beyond that. Operations that have no finite result are Failures with the
// reason "division_by_zero", "overflow" or "domain" and a short message without a full stop.
class CalculatorNumber {
 public:
  CalculatorNumber() = default;  // 0

  // `text`: digits with at most one point and an optional decimal exponent, as in "12", "0.5", ".5", "2e-3".
  static Result<CalculatorNumber> parse(std::string_view text);

  friend Result<CalculatorNumber> add(const CalculatorNumber& a, const CalculatorNumber& b);
  friend Result<CalculatorNumber> subtract(const CalculatorNumber& a, const CalculatorNumber& b);
  friend Result<CalculatorNumber> multiply(const CalculatorNumber& a, const CalculatorNumber& b);
  friend Result<CalculatorNumber> divide(const CalculatorNumber& a, const CalculatorNumber& b);
  // 0 to the power 0 is 1. A fraction as exponent of a negative number is a "domain" failure.
  friend Result<CalculatorNumber> power(const CalculatorNumber& base, const CalculatorNumber& exponent);
  CalculatorNumber negated() const;

  bool is_zero() const { return exact_ ? numerator_ == 0 : value_ == 0; }
  bool is_exact() const { return exact_; }
  double to_double() const;

  // An exact integer in full; anything else with at most 12 significant digits, without trailing zeros:
  // "1788", "0.333333333333", "1e+40".
  std::string to_string() const;

 private:
  using Integer = __int128;

  static CalculatorNumber fraction(Integer numerator, Integer denominator);  // in lowest terms already
  static Result<CalculatorNumber> rounded(double value);
  bool to_exponent(Integer& exponent) const;  // true: an exact integer
  static bool exact_power(CalculatorNumber base, Integer exponent, CalculatorNumber& result);
  static bool exact_sum(const CalculatorNumber& a, const CalculatorNumber& b, CalculatorNumber& sum);
  static bool exact_product(const CalculatorNumber& a, const CalculatorNumber& b, CalculatorNumber& product);

  bool exact_ = true;
  Integer numerator_ = 0;
  Integer denominator_ = 1;  // above 0
  double value_ = 0;         // where not exact
};

}  // namespace stoker
