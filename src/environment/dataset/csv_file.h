#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "environment/dataset/row_file.h"

namespace stoker {

// One record of CSV (RFC 4180): fields divided by commas, in quotes where they hold commas, quotes (doubled)
// or line breaks. `at` moves behind the record and its end of line. Throws Error(kInput) with a clause that
// names no place: "a quote is not closed".
std::vector<std::string> read_csv_record(std::string_view text, size_t& at);

// A CSV file; the file is mapped and only the places of its records are held. Blank lines are passed over.
class CsvFile final : public RowFile {
 public:
  CsvFile(std::filesystem::path path, size_t max_row_bytes,
          const std::function<void(const Json& row, const std::string& place)>& check);

  size_t size() const override { return records_.size(); }
  Json row(size_t index) const override;
  std::string place(size_t index) const override;
  size_t line_number(size_t index) const override { return records_[index].line; }

 private:
  struct Record {
    uint64_t begin = 0;
    uint64_t line = 0;
  };
  std::string_view text() const { return {reinterpret_cast<const char*>(file_.data()), file_.size()}; }
  std::vector<std::string> record_at(size_t& at, uint64_t line) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<std::string> columns_;
  std::vector<Record> records_;
};

}  // namespace stoker
