#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "environment/environment.h"
#include "environment/json_lines_file.h"

namespace stoker {

// The checked rows of one question file. Immutable.
class QuestionFile {
 public:
  // Throws Error(kInput) for a missing or broken file or row, and for an id that occurs twice. `numeric`:
  // every answer must hold a number.
  QuestionFile(const std::filesystem::path& path, size_t max_row_bytes, bool numeric);

  size_t size() const { return file_.size(); }
  TaskRow task(size_t index) const;
  std::string place(size_t index) const { return file_.place(index); }
  // [size()], of the question alone (prompt or messages): equal for equal questions.
  const std::vector<uint64_t>& question_hashes() const { return question_hashes_; }

 private:
  void check_row(const Json& row, const std::string& place, bool numeric);
  void check_ids() const;
  std::string task_id(const Json& row, size_t index) const;

  std::string name_;
  std::vector<uint64_t> question_hashes_;  // filled while file_ is made
  std::vector<uint64_t> id_hashes_;
  JsonLinesFile file_;
};

// The row's answer as text: a string as it is, a number as JSON writes it. Throws Error(kInput) that starts
// with `what`.
std::string answer_text(const Json& row, const std::string& what);

}  // namespace stoker
