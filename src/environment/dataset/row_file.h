#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"

namespace stoker {

// A file of data rows, read at random; any number of threads may read. Row i is a JSON object.
class RowFile {
 public:
  virtual ~RowFile() = default;
  virtual size_t size() const = 0;
  virtual Json row(size_t index) const = 0;
  // "train.jsonl, line 7", for sentences about a row.
  virtual std::string place(size_t index) const = 0;
  virtual size_t line_number(size_t index) const = 0;  // where the row begins, from 1
};

// Opens JSON Lines (an object a line) or, when the name ends with ".csv", CSV (RFC 4180, the first record
// names the columns, values are texts). Parquet is refused with the command that converts it. `check` as in
// JsonLinesFile. Error(kInput) names file, line and remedy.
std::unique_ptr<RowFile> open_row_file(
    const std::filesystem::path& path, size_t max_row_bytes,
    const std::function<void(const Json& row, const std::string& place)>& check);

}  // namespace stoker
