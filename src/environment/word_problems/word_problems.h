#pragma once

#include <cstdint>
#include <memory>

#include "base/config.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "word_problems".
struct WordProblemsOptions {
  int evaluation_size = 512;
  int64_t evaluation_seed = 20260101;

  template <typename V>
  void for_each_field(V& visit) {
    visit("evaluation_size", evaluation_size, "Held-out problems, from templates that are never trained on.",
          between(1, 100000));
    visit("evaluation_seed", evaluation_seed, "Draws the held-out problems, whatever the run's seed is.");
  }
};

// Arithmetic word problems with the calculator: a story of one to three steps with drawn words and numbers,
// one number as the answer ("The answer is 1788."). Tasks are a pure function of (seed, ordinal),
// demonstrations of (seed, index); the held-out problems come from templates of their own. Row fields:
// prompt, expression, answer. Reward and success: make_whole_number_reward.
std::unique_ptr<EnvironmentKind> make_word_problems(const WordProblemsOptions& options);

}  // namespace stoker
