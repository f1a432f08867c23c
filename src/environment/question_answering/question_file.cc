#include "environment/question_answering/question_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "environment/answer.h"
#include "environment/question_environment.h"

namespace stoker {
namespace {

uint64_t question_hash(const std::vector<Message>& messages) {
  return hash64(messages_to_json(messages).dump());
}

// The text of a row's own id; empty when it has none.
std::string own_id(const Json& row) {
  const Json* id = row.find("id");
  if (id == nullptr) return "";
  return id->is_string() ? id->as_string() : id->dump();
}

}  // namespace

std::string answer_text(const Json& row, const std::string& what) {
  const Json* answer = row.find("answer");
  if (answer == nullptr) {
    throw input_error(
        fmt::format("{}: the row has no \"answer\"; give it the text or number to match.", what));
  }
  if (answer->is_string()) return answer->as_string();
  if (answer->is_number()) return answer->dump();
  throw input_error(
      fmt::format("{}: \"answer\" must be a string or a number, but is {}.", what, answer->type_name()));
}

QuestionFile::QuestionFile(const std::filesystem::path& path, size_t max_row_bytes, bool numeric)
    : name_(path.filename().string()),
      file_(path, max_row_bytes, "max_row_bytes",
            [&](const Json& row, const std::string& place) { check_row(row, place, numeric); }) {
  check_ids();
}

void QuestionFile::check_row(const Json& row, const std::string& place, bool numeric) {
  question_hashes_.push_back(question_hash(question_messages(row, place)));
  std::string answer = answer_text(row, place);
  if (numeric && !last_number(answer)) {
    throw input_error(
        fmt::format("{}: \"answer\" holds no number; give it one or set match = \"exact\".", place));
  }
  const Json* id = row.find("id");
  if (id != nullptr && !id->is_integer() && !(id->is_string() && !id->as_string().empty())) {
    throw input_error(fmt::format("{}: \"id\" must be an integer or a text that is not empty.", place));
  }
  id_hashes_.push_back(id == nullptr ? 0 : hash64(own_id(row)));
}

// Equal hashes are only a hint: the rows themselves decide.
void QuestionFile::check_ids() const {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < id_hashes_.size(); ++i) {
    if (id_hashes_[i] != 0) order.emplace_back(id_hashes_[i], i);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i].first != order[i - 1].first) continue;
    std::string id = own_id(file_.row(order[i].second));
    if (id != own_id(file_.row(order[i - 1].second))) continue;
    throw input_error(fmt::format("{}: the \"id\" {} stands in line {} too; give each row its own.",
                                  file_.place(order[i].second), id, file_.line_number(order[i - 1].second)));
  }
}

std::string QuestionFile::task_id(const Json& row, size_t index) const {
  std::string id = own_id(row);
  return id.empty() ? fmt::format("{}:{}", name_, file_.line_number(index)) : id;
}

TaskRow QuestionFile::task(size_t index) const {
  Json row = file_.row(index);
  std::string id = task_id(row, index);
  return {std::move(id), std::move(row)};
}

}  // namespace stoker
