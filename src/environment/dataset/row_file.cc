#include "environment/dataset/row_file.h"

#include <fmt/core.h>

#include <cctype>

#include "base/error.h"
#include "base/file.h"
#include "environment/dataset/csv_file.h"
#include "environment/json_lines_file.h"

namespace stoker {
namespace {

class JsonRows final : public RowFile {
 public:
  JsonRows(const std::filesystem::path& path, size_t max_row_bytes,
           const std::function<void(const Json& row, const std::string& place)>& check)
      : file_(path, max_row_bytes, "max_row_bytes", check) {}

  size_t size() const override { return file_.size(); }
  Json row(size_t index) const override { return file_.row(index); }
  std::string place(size_t index) const override { return file_.place(index); }
  size_t line_number(size_t index) const override { return file_.line_number(index); }

 private:
  JsonLinesFile file_;
};

bool is_parquet(const std::filesystem::path& path) {
  if (path.extension() == ".parquet") return true;
  const MappedFile file(path);
  return file.size() >= 4 && std::string_view(reinterpret_cast<const char*>(file.data()), 4) == "PAR1";
}

}  // namespace

std::unique_ptr<RowFile> open_row_file(
    const std::filesystem::path& path, size_t max_row_bytes,
    const std::function<void(const Json& row, const std::string& place)>& check) {
  if (is_parquet(path)) {
    std::filesystem::path converted = path;
    converted.replace_extension(".jsonl");
    throw input_error(
        fmt::format("{} is Parquet, which is not read; convert it with: python3 -c \"import pandas; "
                    "pandas.read_parquet('{}').to_json('{}', orient='records', lines=True)\" (pip install "
                    "pandas pyarrow).",
                    path.string(), path.string(), converted.string()));
  }
  if (path.extension() == ".csv") return std::make_unique<CsvFile>(path, max_row_bytes, check);
  return std::make_unique<JsonRows>(path, max_row_bytes, check);
}

}  // namespace stoker
