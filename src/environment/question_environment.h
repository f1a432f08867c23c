#pragma once

#include "environment/calculator/calculator.h"
#include "environment/environment.h"

namespace stoker {

// The environment of a single question: reset tells the row's `prompt` as a user message, or its `messages`;
// the first turn without tool calls is the answer and ends the episode. Offers the calculator when asked to.
// Holds nothing outside itself and draws nothing at random.
class QuestionEnvironment final : public Environment {
 public:
  explicit QuestionEnvironment(bool with_calculator) : with_calculator_(with_calculator) {}

  // A row without a usable question is the failure environment.bad_task.
  Task<Result<Observation>> reset(const TaskRow& task, uint64_t seed) override;
  Task<Result<Observation>> step(const Action& action) override;
  Task<> close() override;
  std::vector<Tool*> tools() override;

 private:
  bool with_calculator_;
  CalculatorTool calculator_;
};

// The messages of a row with `prompt` or `messages`; throws Error(kInput) that starts with `what`.
std::vector<Message> question_messages(const Json& row, const std::string& what);

}  // namespace stoker
