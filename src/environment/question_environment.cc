#include "environment/question_environment.h"

#include <fmt/format.h>

#include "base/error.h"

namespace stoker {

std::vector<Message> question_messages(const Json& row, const std::string& what) {
  const Json* prompt = row.find("prompt");
  const Json* messages = row.find("messages");
  if ((prompt == nullptr) == (messages == nullptr)) {
    throw input_error(fmt::format("{}: the row has {} \"prompt\" {} \"messages\"; give it one of them.", what,
                                  prompt ? "both" : "neither", prompt ? "and" : "nor"));
  }
  if (prompt != nullptr) {
    if (!prompt->is_string()) {
      throw input_error(
          fmt::format("{}: \"prompt\" must be a string, but is {}.", what, prompt->type_name()));
    }
    return {Message{.role = Role::kUser, .content = prompt->as_string()}};
  }
  std::vector<Message> result = messages_from_json(*messages, fmt::format("{}, \"messages\"", what));
  if (result.empty() || result.back().role == Role::kAssistant) {
    throw input_error(fmt::format("{}: \"messages\" must end with what the assistant answers to, but {}.",
                                  what, result.empty() ? "is empty" : "ends with an assistant's message"));
  }
  return result;
}

Task<Result<Observation>> QuestionEnvironment::reset(const TaskRow& task, uint64_t seed) {
  try {
    co_return Observation{.messages = question_messages(task.fields, task.id)};
  } catch (const Error& error) {
    co_return Failure{FailureClass::kEnvironment, "bad_task", error.what()};
  }
}

Task<Result<Observation>> QuestionEnvironment::step(const Action& action) {
  co_return Observation{.done = action.tool_calls.empty()};
}

Task<> QuestionEnvironment::close() { co_return; }

std::vector<Tool*> QuestionEnvironment::tools() {
  if (!with_calculator_) return {};
  return {&calculator_};
}

}  // namespace stoker
