#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace stoker {

// A JSON object of an input in JSON Lines, and its place for error messages ("line 3 of rows.jsonl").
struct JsonRow {
  Json object;
  std::string place;
};

// All rows of a file, or of standard input when `path` is empty or "-"; blank lines are passed over. Throws
// Error(kInput) naming the first line that is no JSON object.
std::vector<JsonRow> read_json_rows(const std::filesystem::path& path);

// The members of `row` that `known` does not name are refused by name.
void refuse_unknown_members(const JsonRow& row, const std::vector<std::string>& known);

// The member as a list of token ids below `vocabulary_size`.
std::vector<int32_t> token_ids(const JsonRow& row, const std::string& member, int32_t vocabulary_size);

// Writes one line to standard output, whole and at once. Throws Error(kResource) when nobody takes it.
void print_json_row(const Json& object);

}  // namespace stoker
