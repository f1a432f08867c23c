#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/message.h"

namespace stoker {

// Which columns of a data row hold what. A column is a member of the row, or a path of members:
// "reward_model. ground_truth".
struct ColumnMapping {
  std::string prompt;  // a text, or messages
  std::string answer;  // a text or a number; empty: the rows have none
  std::string id;      // optional in each row

  bool operator==(const ColumnMapping&) const = default;
};

// The formats that are known by name, for a run file: "auto", "trl", "verl", "nemo_gym", "verifiers".
//
//   trl        prompt (text or messages), answer or solution where there is one
//   verl       prompt (messages), reward_model.ground_truth
//   nemo_gym   responses_create_params.input (text or messages), answer or expected_answer
//   verifiers  prompt or question, answer
//
// auto tells them by the members of `row`. The answer is the first of the usual columns that `row` has.
std::vector<std::string> dataset_formats();
ColumnMapping mapping_of(const std::string& format, const Json& row);

// The value in a column; null when there is none.
const Json* column(const Json& row, std::string_view path);

// The messages of a row: a text is the user's. Also NeMo Gym's items (type "message", parts "input_text",
// role "developer"). Throws Error(kInput) that starts with `place` when they are missing, wrong or end with
// the assistant.
std::vector<Message> mapped_messages(const Json& row, const ColumnMapping& mapping, const std::string& place);

// The answer of a row as text, a number as JSON writes it; empty when the mapping or the row has none.
std::optional<std::string> mapped_answer(const Json& row, const ColumnMapping& mapping);

}  // namespace stoker
