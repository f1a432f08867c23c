#include "environment/dataset/csv_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace stoker {
namespace {

// A field in quotes that begins at `at`; `at` moves behind the closing one.
std::string quoted_field(std::string_view text, size_t& at) {
  std::string field;
  ++at;
  while (true) {
    const size_t quote = text.find('"', at);
    if (quote == std::string_view::npos) throw input_error("a quote is not closed");
    field.append(text.substr(at, quote - at));
    at = quote + 1;
    if (at >= text.size() || text[at] != '"') return field;
    field.push_back('"');
    ++at;
  }
}

}  // namespace

std::vector<std::string> read_csv_record(std::string_view text, size_t& at) {
  std::vector<std::string> fields;
  while (true) {
    if (at < text.size() && text[at] == '"') {
      fields.push_back(quoted_field(text, at));
      if (at < text.size() && text[at] != ',' && text[at] != '\n' && text[at] != '\r') {
        throw input_error("something follows a closing quote");
      }
    } else {
      const size_t end = std::min(text.find_first_of(",\n\r", at), text.size());
      fields.emplace_back(text.substr(at, end - at));
      at = end;
    }
    if (at < text.size() && text[at] == ',') {
      ++at;
      continue;
    }
    if (at < text.size() && text[at] == '\r') ++at;
    if (at < text.size() && text[at] == '\n') ++at;
    return fields;
  }
}

CsvFile::CsvFile(std::filesystem::path path, size_t max_row_bytes,
                 const std::function<void(const Json& row, const std::string& place)>& check)
    : path_(std::move(path)), file_(path_) {
  const std::string_view whole = text();
  size_t at = whole.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  uint64_t line = 1;
  while (at < whole.size()) {
    const size_t begin = at;
    const std::vector<std::string> fields = record_at(at, line);
    const uint64_t first_line = line;
    line += static_cast<uint64_t>(std::count(whole.begin() + static_cast<ptrdiff_t>(begin),
                                             whole.begin() + static_cast<ptrdiff_t>(at), '\n'));
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (at - begin > max_row_bytes) {
      throw input_error(fmt::format(
          "{}, line {}: the row has {} bytes, more than max_row_bytes = {}; shorten it or raise the limit.",
          path_.string(), first_line, at - begin, max_row_bytes));
    }
    if (columns_.empty()) {
      columns_ = fields;
      if (std::set<std::string>(fields.begin(), fields.end()).size() < fields.size()) {
        throw input_error(fmt::format("{}, line {}: a column name occurs twice; give each its own.",
                                      path_.string(), first_line));
      }
      continue;
    }
    records_.push_back({begin, first_line});
    check(row(records_.size() - 1), place(records_.size() - 1));
  }
  if (records_.empty()) {
    throw input_error(fmt::format(
        "{} holds no rows; give it a first line with the columns' names and a row in each further one.",
        path_.string()));
  }
}

std::vector<std::string> CsvFile::record_at(size_t& at, uint64_t line) const {
  try {
    return read_csv_record(text(), at);
  } catch (const Error& error) {
    throw input_error(fmt::format("{}, line {}: {}.", path_.string(), line, error.what()));
  }
}

std::string CsvFile::place(size_t index) const {
  return fmt::format("{}, line {}", path_.string(), records_[index].line);
}

Json CsvFile::row(size_t index) const {
  size_t at = records_[index].begin;
  std::vector<std::string> fields = record_at(at, records_[index].line);
  if (fields.size() != columns_.size()) {
    throw input_error(fmt::format("{}: the row has {} values for {} columns.", place(index), fields.size(),
                                  columns_.size()));
  }
  Json row = Json::object();
  for (size_t i = 0; i < fields.size(); ++i)
    row.as_object().emplace_back(columns_[i], Json(std::move(fields[i])));
  return row;
}

}  // namespace stoker
