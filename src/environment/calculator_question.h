#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "environment/environment.h"

namespace stoker {

// What kinds whose questions are answered with the calculator have in common.

// A row with the fields prompt, expression and answer.
TaskRow calculator_task(std::string id, const std::string& question, const std::string& expression,
                        int64_t value);

// Reward and success: 1 when the last number of the final answer is the row's whole number `answer`, else 0;
// also 0 for an episode that ended inside a tool call or at a limit.
std::unique_ptr<Reward> make_whole_number_reward();

// Appends the assistant's call of the calculator and what the calculator says to it.
void append_calculation(std::vector<Message>& messages, const std::string& expression);

}  // namespace stoker
