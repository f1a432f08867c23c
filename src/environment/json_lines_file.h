#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace stoker {

// A JSON Lines file of rows, each an object, read at random: the file is mapped and only the rows' places are
// held in memory (16 bytes a row). Lines end at '\n' only; blank lines are passed over; the last line needs
// no
// '\n'; a UTF-8 byte order mark at the start is allowed. The file must not change while the object lives.
// Immutable: any number of threads may read.
class JsonLinesFile {
 public:
  // Reads every row once: one that is no JSON object or is longer than `max_row_bytes` throws Error(kInput)
  // naming file, line and remedy (`limit_key` is the option to raise); so does a missing or empty file.
  // `check(row, place)` may throw Error(kInput) for a row that is wrong in itself.
  JsonLinesFile(std::filesystem::path path, size_t max_row_bytes, const std::string& limit_key,
                const std::function<void(const Json& row, const std::string& place)>& check);

  size_t size() const { return rows_.size(); }
  Json row(size_t index) const;
  // "train.jsonl, line 7", for sentences about a row.
  std::string place(size_t index) const;
  size_t line_number(size_t index) const { return rows_[index].line; }  // from 1

 private:
  struct Row {
    uint64_t begin = 0;
    uint32_t size = 0;
    uint32_t line = 0;
  };
  std::string_view text_of(const Row& row) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<Row> rows_;
};

}  // namespace stoker
