#include "cli/json_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/error.h"

namespace stoker {

std::vector<JsonRow> read_json_rows(const std::filesystem::path& path) {
  const bool standard_input = path.empty() || path == "-";
  std::ifstream file;
  if (!standard_input) {
    file.open(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path)) {
      throw input_error(
          fmt::format("{} cannot be read; name a file, or leave it out for standard input.", path.string()));
    }
  }
  std::istream& input = standard_input ? std::cin : file;
  std::vector<JsonRow> rows;
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place =
        fmt::format("line {} of {}", number, standard_input ? "the input" : path.string());
    Result<Json> json = Json::try_parse(line);
    if (!json) throw input_error(fmt::format("The {} is no JSON: {}", place, json.failure().message));
    if (!json->is_object()) {
      throw input_error(fmt::format("The {} holds a {}; it must be an object.", place, json->type_name()));
    }
    rows.push_back({*std::move(json), place});
  }
  if (input.bad()) throw resource_error("The input could not be read to its end; try again.");
  return rows;
}

void refuse_unknown_members(const JsonRow& row, const std::vector<std::string>& known) {
  for (const auto& [name, value] : row.object.as_object()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw input_error(
        fmt::format("The {} has a member \"{}\"; it may have {}.", row.place, name, fmt::join(known, ", ")));
  }
}

std::vector<int32_t> token_ids(const JsonRow& row, const std::string& member, int32_t vocabulary_size) {
  const Json& list = row.object.at(member);
  if (!list.is_array()) {
    throw input_error(fmt::format("\"{}\" in the {} must be a list of token ids.", member, row.place));
  }
  std::vector<int32_t> ids;
  for (const Json& id : list.as_array()) {
    if (!id.is_integer() || id.as_double() < 0 || id.as_double() >= vocabulary_size) {
      throw input_error(fmt::format("\"{}\" in the {} holds {}; token ids are 0 to {}.", member, row.place,
                                    id.dump().substr(0, 40), vocabulary_size - 1));
    }
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

void print_json_row(const Json& object) {
  const std::string line = object.dump() + "\n";
  const bool written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  if (!written || std::fflush(stdout) != 0) {
    throw resource_error("The output could not be written; is its reader gone or the disk full?");
  }
}

}  // namespace stoker
