#include "model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace stoker {
namespace {

constexpr size_t kLargestTemplate = size_t{1} << 20;
constexpr size_t kMostTemplates = 64;

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

std::filesystem::path gguf_with_tokenizer(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return path;
  return std::filesystem::is_directory(path) ? gguf_of_folder(path) : std::filesystem::path();
}

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

Json gguf_tokenizer_config(const GgufFile& file) {
  Json config = Json::object();
  const auto tokens = file.require(file.find_strings("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens");
  for (const auto& [name, key] : {std::pair("bos_token", "tokenizer.ggml.bos_token_id"),
                                  std::pair("eos_token", "tokenizer.ggml.eos_token_id"),
                                  std::pair("unk_token", "tokenizer.ggml.unknown_token_id"),
                                  std::pair("pad_token", "tokenizer.ggml.padding_token_id")}) {
    const std::optional<int64_t> id = file.find_int(key);
    if (id && *id >= 0 && *id < std::ssize(tokens)) config.set(name, to_valid_utf8(tokens[*id]));
  }
  Json::Array templates;
  const auto add = [&](std::string_view name, std::string_view key) {
    const std::optional<std::string_view> source = file.find_string(key);
    if (!source) return;
    if (source->size() > kLargestTemplate || to_valid_utf8(*source) != *source) {
      throw input_error(fmt::format("{}: {} is no text of at most {} bytes in UTF-8; the file is damaged.",
                                    file.name(), to_valid_utf8(key), kLargestTemplate));
    }
    templates.push_back(Json::object({{"name", std::string(name)}, {"template", std::string(*source)}}));
  };
  add("default", "tokenizer.chat_template");
  const auto named = file.find_strings("tokenizer.chat_templates").value_or(std::vector<std::string_view>());
  if (named.size() > kMostTemplates) {
    throw input_error(
        fmt::format("{}: tokenizer.chat_templates names {} templates, more than {}; the file is "
                    "damaged.",
                    file.name(), named.size(), kMostTemplates));
  }
  for (std::string_view name : named) {
    if (name != "default") add(name, fmt::format("tokenizer.chat_template.{}", name));
  }
  if (templates.size() == 1 && templates[0].at("name").as_string() == "default") {
    config.set("chat_template", templates[0].at("template"));
  } else if (!templates.empty()) {
    config.set("chat_template", std::move(templates));
  }
  return config;
}

TokenizerPtr load_tokenizer(const std::filesystem::path& path) {
  const std::filesystem::path file = gguf_with_tokenizer(path);
  return file.empty() ? Tokenizer::load(path) : load_gguf_tokenizer(file);
}

std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& path) {
  if (ChatTemplate::is_in(path)) return ChatTemplate::load(path);
  const std::filesystem::path gguf = gguf_with_tokenizer(path);
  if (gguf.empty()) return std::nullopt;
  const GgufFile file(gguf);
  const Json config = gguf_tokenizer_config(file);
  if (config.find("chat_template") == nullptr) return std::nullopt;
  return ChatTemplate::from_json(config, file.name());
}

SpecialTokenNames load_special_tokens_of_model(const std::filesystem::path& path) {
  const std::filesystem::path gguf = gguf_with_tokenizer(path);
  return gguf.empty() ? load_special_tokens(path) : special_tokens_of(gguf_tokenizer_config(GgufFile(gguf)));
}

}  // namespace stoker
