#include "environment/json_lines_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace stoker {

JsonLinesFile::JsonLinesFile(std::filesystem::path path, size_t max_row_bytes, const std::string& limit_key,
                             const std::function<void(const Json& row, const std::string& place)>& check)
    : path_(std::move(path)), file_(path_) {
  std::string_view text(reinterpret_cast<const char*>(file_.data()), file_.size());
  size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  for (uint32_t line = 1; begin < text.size(); ++line) {
    size_t end = std::min(text.find('\n', begin), text.size());
    size_t size = end - begin;
    if (text.substr(begin, size).find_first_not_of(" \t\r") != std::string_view::npos) {
      if (size > max_row_bytes || size > std::numeric_limits<uint32_t>::max()) {
        throw input_error(fmt::format(
            "{}, line {}: the row has {} bytes, more than {} = {}; shorten it or raise the limit.",
            path_.string(), line, size, limit_key, max_row_bytes));
      }
      rows_.push_back({begin, static_cast<uint32_t>(size), line});
      check(row(rows_.size() - 1), place(rows_.size() - 1));
    }
    begin = end + 1;
  }
  if (rows_.empty()) {
    throw input_error(fmt::format("{} holds no rows; give it one JSON object a line.", path_.string()));
  }
}

std::string_view JsonLinesFile::text_of(const Row& row) const {
  return std::string_view(reinterpret_cast<const char*>(file_.data()) + row.begin, row.size);
}

std::string JsonLinesFile::place(size_t index) const {
  return fmt::format("{}, line {}", path_.string(), rows_[index].line);
}

Json JsonLinesFile::row(size_t index) const {
  // Parsed as a text of one line, so that the failure's own line number would only mislead.
  Result<Json> json = Json::try_parse(text_of(rows_[index]));
  if (!json) {
    std::string problem = json.failure().message;
    constexpr std::string_view kLine = " at line 1, column ";
    if (size_t at = problem.rfind(kLine); at != std::string::npos) {
      problem.replace(at, kLine.size(), " at column ");
    }
    throw input_error(fmt::format("{}: {}; each line must be one JSON object.", place(index), problem));
  }
  if (!json->is_object()) {
    throw input_error(
        fmt::format("{}: the row must be a JSON object, but is {}.", place(index), json->type_name()));
  }
  return *std::move(json);
}

}  // namespace stoker
