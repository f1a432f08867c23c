#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "text/sentencepiece_file.h"
#include "text/tiktoken_file.h"
#include "text/tokenizer.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestTokenizerFile = size_t{256} << 20;

// The file in `folder` that describes its tokenizer; `folder`/tokenizer.json where there is none.
fs::path tokenizer_file_of(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tiktoken") found.push_back(entry.path());
  }
  if (found.empty()) return folder / "tokenizer.json";
  return *std::min_element(found.begin(), found.end());
}

// The tokenizer_config.json beside `file`; null without one.
Json config_beside(const fs::path& file) {
  fs::path path = file.parent_path() / "tokenizer_config.json";
  if (!fs::exists(path)) return nullptr;
  return Json::parse(read_file(path, kLargestTokenizerFile), path.string());
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  fs::path file = fs::is_directory(path) ? tokenizer_file_of(path) : path;
  if (!fs::exists(file)) {
    throw input_error(
        fmt::format("{} does not exist; name a tokenizer.json, a tokenizer.model, a .tiktoken file "
                    "or the model directory that holds one.",
                    file.string()));
  }
  std::string what = file.string();
  std::string bytes = read_file(file, kLargestTokenizerFile);
  size_t first = bytes.find_first_not_of(" \t\r\n");
  bool is_json = file.extension() == ".json" || (first != std::string::npos && bytes[first] == '{');
  if (is_json) return from_json(Json::parse(bytes, what), what);
  if (bytes.starts_with("GGUF")) {
    throw input_error(
        fmt::format("{} is a GGUF file, and a tokenizer.json, tokenizer.model or .tiktoken file is "
                    "needed here; name the model's folder or one of these.",
                    what));
  }
  if (looks_like_sentencepiece(bytes))
    return from_json(sentencepiece_json(bytes, config_beside(file), what), what);
  return from_json(tiktoken_json(bytes, std::nullopt, config_beside(file), what), what);
}

}  // namespace stoker
