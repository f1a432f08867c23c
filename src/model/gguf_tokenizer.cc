#include "model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stoker {
namespace {

// The one GGUF file of a folder without another tokenizer; empty where there is none.
std::filesystem::path gguf_of_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::path name = entry.path().filename();
    if (name == "tokenizer.json" || name == "tokenizer.model" || name.extension() == ".tiktoken") return {};
    if (name.extension() == ".gguf") found.push_back(entry.path());
  }
  // The first part of a model in several files holds the metadata.
  std::sort(found.begin(), found.end());
  return found.empty() ? std::filesystem::path() : found.front();
}

TokenizerPtr load_gguf_tokenizer(const std::filesystem::path& path) {
  GgufFile file(path);
  return Tokenizer::from_json(gguf_vocabulary_json(read_gguf_vocabulary(file), file.name()), file.name());
}

}  // namespace

GgufVocabulary read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  vocabulary.model = file.require(file.find_string("tokenizer.ggml.model"), "tokenizer.ggml.model");
  vocabulary.pre = file.find_string("tokenizer.ggml.pre").value_or("");
  vocabulary.tokens = file.require(file.find_strings("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens");
  vocabulary.scores = file.find_doubles("tokenizer.ggml.scores").value_or(std::vector<double>());
  vocabulary.types = file.find_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>());
  vocabulary.merges = file.find_strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>());
  for (int64_t byte :
       file.find_ints("tokenizer.ggml.precompiled_charsmap").value_or(std::vector<int64_t>())) {
    vocabulary.charsmap.push_back(static_cast<char>(byte));
  }
  vocabulary.bos = file.find_int("tokenizer.ggml.bos_token_id");
  vocabulary.eos = file.find_int("tokenizer.ggml.eos_token_id");
  vocabulary.unknown = file.find_int("tokenizer.ggml.unknown_token_id");
  vocabulary.add_bos = file.find_bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = file.find_bool("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  vocabulary.remove_extra_whitespaces = file.find_bool("tokenizer.ggml.remove_extra_whitespaces");
  return vocabulary;
}

TokenizerPtr load_tokenizer(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return load_gguf_tokenizer(path);
  if (std::filesystem::is_directory(path)) {
    std::filesystem::path file = gguf_of_folder(path);
    if (!file.empty()) return load_gguf_tokenizer(file);
  }
  return Tokenizer::load(path);
}

}  // namespace stoker
