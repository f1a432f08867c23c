#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "text/testing/tokenizers.h"
#include "text/tokenizer_part.h"

namespace stoker {

// The definition of a normalizer or decoder that the format goldens name.
inline TokenizerPart format_kind(const char* list, const std::string& name) {
  static const Json kinds = Json::parse(read_file(text_goldens() / "format_kinds.json"), "format_kinds.json");
  return {kinds.at(list).at(name), list, "format_kinds.json"};
}

// The rows that src/text/goldens/make_format_goldens.py records in `name`.jsonl, or the many that it writes
// into the build folder on --check; those are empty where it has not.
inline std::vector<Json> format_rows(const std::string& name, bool large) {
  std::filesystem::path path = text_goldens() / (name + ".jsonl");
  if (large) {
    path = std::filesystem::path(STOKER_SOURCE_DIR) / "build" / "goldens" / (name + "_large.jsonl");
    if (!std::filesystem::exists(path)) return {};
  }
  return read_rows(path);
}

}  // namespace stoker
