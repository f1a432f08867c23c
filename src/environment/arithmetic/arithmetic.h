#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "arithmetic".
struct ArithmeticOptions {
  std::vector<double> digit_weights = {25, 40, 35};
  std::vector<double> form_weights = {5, 35, 30, 15, 15};
  int evaluation_size = 256;
  int64_t evaluation_seed = 20260101;
  std::string demonstrations = "clean";
  double direct_share = 0.60;
  double corrupted_share = 0.08;
  double misreported_share = 0.04;
  bool calculator = true;

  template <typename V>
  void for_each_field(V& visit) {
    visit("digit_weights", digit_weights, "Weights of operands with 1, 2, ... digits (at most 6).",
          at_least(0));
    visit("form_weights", form_weights,
          "Weights of the five forms a, a?b, a?b?c, (a+b)*c and a*(b+c), where ? is +, - or *.", at_least(0));
    visit("evaluation_size", evaluation_size,
          "Held-out expressions; none occurs in training tasks or demonstrations.", between(1, 100000));
    visit("evaluation_seed", evaluation_seed, "Draws the held-out expressions, whatever the run's seed is.");
    visit("demonstrations", demonstrations,
          "What supervised warm-up sees: the tool used rightly each time, or mistakes in these shares.",
          one_of({"clean", "imperfect"}));
    visit("direct_share", direct_share, "Imperfect demonstrations that answer at once with a wrong number.",
          between(0, 1));
    visit("corrupted_share", corrupted_share,
          "Imperfect demonstrations that call with a miscopied expression.", between(0, 1));
    visit("misreported_share", misreported_share,
          "Imperfect demonstrations that answer with another number than the tool's result.", between(0, 1));
    visit("calculator", calculator, "Offers the calculator; false: one comes from tools.command.");
  }
};

// Arithmetic with the calculator: a drawn question, one number as the answer ("The answer is 1788."). Tasks
// are a pure function of (seed, ordinal), demonstrations of (seed, index). Row fields: prompt, expression,
// answer. Reward and success: make_whole_number_reward. Options that do not fit together throw Error(kInput)
// naming the key.
std::unique_ptr<EnvironmentKind> make_arithmetic(const ArithmeticOptions& options);

}  // namespace stoker
