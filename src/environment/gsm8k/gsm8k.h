#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "gsm8k".
struct Gsm8kOptions {
  std::string train_file;
  std::string evaluation_file;
  std::string instruction =
      "Think step by step. End with the final number on a line of its own, after \"####\".";
  bool calculator = false;
  bool reward = true;

  template <typename V>
  void for_each_field(V& visit) {
    visit("train_file", train_file, "Training questions: rows of question and answer.");
    visit("evaluation_file", evaluation_file, "Held-out questions.");
    visit("instruction", instruction, "Added to each question, after an empty line; may be empty.");
    visit("calculator", calculator, "Offers the calculator tool.");
    visit("reward", reward, "Whether the native reward counts; false: rewards come from reward.command.");
  }
};

// Grade-school mathematics (Cobbe et al. 2021, "Training verifiers to solve math word problems"): rows of
// `question` and `answer`, which ends with "#### NUMBER". Reward "answer" and success: 1 when the final
// number of the policy's answer (final_number.h) is the row's, else 0.
std::unique_ptr<EnvironmentKind> make_gsm8k(const Gsm8kOptions& options);

}  // namespace stoker
