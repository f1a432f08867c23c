#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "question_answering".
struct QuestionAnsweringOptions {
  std::string train_file;
  std::string evaluation_file;
  std::string match = "numeric";
  bool ignore_case = true;
  bool calculator = false;
  int64_t max_row_bytes = int64_t{16} << 20;

  template <typename V>
  void for_each_field(V& visit) {
    visit("train_file", train_file, "JSON Lines file of the training questions.");
    visit("evaluation_file", evaluation_file, "JSON Lines file of the held-out questions.");
    visit("match", match,
          "numeric: the last number of the answer equals the last number of the row's; exact: the texts are "
          "equal but for blanks.",
          one_of({"numeric", "exact"}));
    visit("ignore_case", ignore_case, "Whether exact takes capital and small ASCII letters as equal.");
    visit("calculator", calculator, "Offers the calculator tool.");
    visit("max_row_bytes", max_row_bytes, "Longest row that is read.", between(1, 4294967295.0));
  }
};

// Question answering over JSON Lines files. A row has `prompt` (a text) or `messages` (OpenAI's form, not
// ending with the assistant), `answer` (a text or a number) and, if it likes, `id`, unique within its file;
// other members are passed on to the environment. Training tasks come in a seeded order of their own each
// epoch, held-out ones in file order. A training row whose question is held out too is left out, with a
// warning. Reward and success: 1 when the final answer matches, else 0; also 0 for an episode that ended
// inside a tool call or at a limit.
//
// A missing or broken file or row throws Error(kInput) naming file, line, key and remedy when the files are
// first needed: training_tasks reads both, evaluation_tasks its own.
std::unique_ptr<EnvironmentKind> make_question_answering(const QuestionAnsweringOptions& options);

}  // namespace stoker
