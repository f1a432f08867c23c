#include "model/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "model/float_types.h"
#include "model/gguf_model.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestConfig = size_t{16} << 20;
// Everything that tokenizers of Hugging Face directories consist of.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",  "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "chat_template.json",
};

// Whether there is something at `path`; what cannot be looked at counts as absent.
bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

// generation_config.json: that of the model `source`, for its sampling defaults and further tokens to stop
// at, or else plain sampling. Tokens that the configuration names are its own, but the source's stop tokens
// stay.
Json generation_config(const ModelConfig& config, const Json& names, const fs::path& source) {
  Json generation = Json::object({{"bos_token_id", names.at("bos_token_id")},
                                  {"eos_token_id", names.at("eos_token_id")},
                                  {"pad_token_id", names.at("pad_token_id")},
                                  {"do_sample", true},
                                  {"temperature", 1.0}});
  fs::path path = source / "generation_config.json";
  if (source.empty() || !is_there(path)) return generation;
  Json kept = Json::parse(read_file(path, kLargestConfig), path.string());
  if (!kept.is_object()) {
    throw input_error(fmt::format("{} is {}, not a JSON object; correct or remove the file.", path.string(),
                                  kept.type_name()));
  }
  Json::Array stops;
  if (const Json* eos = kept.find("eos_token_id"); eos != nullptr && !eos->is_null()) {
    stops = eos->is_array() ? eos->as_array() : Json::Array{*eos};
  }
  for (const Json& id : stops) {
    if (!id.is_integer() || id.as_double() < 0 || id.as_double() >= config.vocab_size) {
      throw input_error(
          fmt::format("{}: the eos_token_id {} is no token of the vocabulary of {}; correct or "
                      "remove the file.",
                      path.string(), id.dump(), config.vocab_size));
    }
  }
  for (int32_t id : config.eos_token_ids) {
    if (std::find(stops.begin(), stops.end(), Json(id)) == stops.end()) stops.push_back(id);
  }
  if (stops.size() == 1) kept.set("eos_token_id", stops[0]);
  if (stops.size() > 1) kept.set("eos_token_id", std::move(stops));
  for (const char* key : {"bos_token_id", "pad_token_id"}) {
    if (!names.at(key).is_null()) kept.set(key, names.at(key));
  }
  return kept;
}

// Elements of a tensor in the type of the file; a view of `values`, or of `buffer`.
std::span<const std::byte> converted(std::span<const float> values, TensorType type,
                                     std::vector<uint16_t>& buffer) {
  if (type == TensorType::kF32) return std::as_bytes(values);
  buffer.resize(values.size());
  std::ranges::transform(values, buffer.begin(), type == TensorType::kF16 ? float_to_half : float_to_brain);
  return std::as_bytes(std::span(buffer));
}

// Manifest indices of each shard, in order.
std::vector<std::vector<size_t>> cut_into_shards(const Weights& weights, int64_t element_bytes,
                                                 int64_t most) {
  std::vector<std::vector<size_t>> shards(1);
  int64_t size = 0;
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    const int64_t bytes = weights.manifest()[i].element_count() * element_bytes;
    if (!shards.back().empty() && size + bytes > most) {
      shards.emplace_back();
      size = 0;
    }
    shards.back().push_back(i);
    size += bytes;
  }
  return shards;
}

void write_shard(const fs::path& path, const Weights& weights, std::span<const size_t> indices,
                 TensorType type) {
  std::vector<TensorView> tensors;
  std::vector<std::vector<uint16_t>> buffers(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const TensorInfo& info = weights.manifest()[indices[i]];
    tensors.push_back({info.name, type, info.shape, converted(weights.tensor(indices[i]), type, buffers[i])});
  }
  write_safetensors(path, tensors, {{"format", "pt"}});
}

// One file, or shards and, after them, their index. What another way of cutting left in the folder goes.
void write_weights(const fs::path& folder, const Weights& weights, const SaveOptions& options) {
  const fs::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  const int64_t element_bytes = options.type == TensorType::kF32 ? 4 : 2;
  const auto shards = cut_into_shards(weights, element_bytes, options.max_shard_bytes);
  if (shards.size() == 1) {
    write_shard(single, weights, shards[0], options.type);
    fs::remove(index);
    return;
  }
  Json map = Json::object();
  int64_t total = 0;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards.size());
    write_shard(folder / name, weights, shards[s], options.type);
    for (const size_t i : shards[s]) {
      map.set(weights.manifest()[i].name, name);
      total += weights.manifest()[i].element_count() * element_bytes;
    }
  }
  const Json json =
      Json::object({{"metadata", Json::object({{"total_size", total}})}, {"weight_map", std::move(map)}});
  write_file_atomic(index, json.dump_pretty() + "\n");
  fs::remove(single);
}

const char* torch_type(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "float32";
    case TensorType::kF16:
      return "float16";
    case TensorType::kBF16:
      return "bfloat16";
    default:
      throw internal_error("Weights are written as F32, F16 or BF16.");
  }
}

}  // namespace

bool is_gguf_path(const fs::path& path) {
  std::error_code code;
  return path.extension() == ".gguf" && !fs::is_directory(path, code);
}

ModelConfig load_model_config(const fs::path& directory) {
  if (is_gguf_path(directory)) return gguf_model_config(GgufFile(directory));
  std::error_code code;
  if (!fs::is_directory(directory, code)) {
    throw input_error(fmt::format(
        "{} is not a directory; name a Hugging Face model directory or a GGUF file, or make one with "
        "'stoker init'.",
        directory.string()));
  }
  fs::path path = directory / "config.json";
  if (!is_there(path)) {
    throw input_error(
        fmt::format("{} has no config.json; name a Hugging Face model directory, or make one with "
                    "'stoker init'.",
                    directory.string()));
  }
  std::string what = path.string();
  return model_config_from_json(Json::parse(read_file(path, kLargestConfig), what), what);
}

Weights load_model_weights(const fs::path& path, const LoadProgress& progress) {
  if (is_gguf_path(path)) {
    const GgufFile file(path);
    const ModelConfig config = gguf_model_config(file);
    return read_weights(*open_gguf_tensors(file, config), config, progress);
  }
  const ModelConfig config = load_model_config(path);
  return read_weights(*open_safetensors(path), config, progress);
}

void copy_tokenizer(const fs::path& source, const fs::path& folder) {
  std::error_code code;
  if (fs::equivalent(source, folder, code)) return;
  std::vector<fs::path> names;
  for (const char* name : kTokenizerFiles) {
    if (is_there(source / name)) names.emplace_back(name);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(source, code)) {
    if (entry.path().extension() == ".tiktoken") names.push_back(entry.path().filename());
  }
  if (names.empty()) {
    throw input_error(
        fmt::format("{} has no tokenizer.json to copy into {}; name the directory of the model that was "
                    "trained.",
                    source.string(), folder.string()));
  }
  std::vector<std::string> contents;
  for (const fs::path& name : names) contents.push_back(read_file(source / name));
  remove_tokenizer(folder);
  for (size_t i = 0; i < names.size(); ++i) write_file_atomic(folder / names[i], contents[i]);
}

void remove_tokenizer(const fs::path& folder) {
  for (const char* name : kTokenizerFiles) fs::remove(folder / name);
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tiktoken") others.push_back(entry.path());
  }
  for (const fs::path& path : others) fs::remove(path);
}

void save_model(const fs::path& folder, const Weights& weights, const fs::path& source,
                const SaveOptions& options) {
  const ModelConfig& config = weights.config();
  Json json = model_config_to_json(config);
  json.set("torch_dtype", torch_type(options.type));
  const bool from_directory = !source.empty() && !is_gguf_path(source);
  Json generation = generation_config(config, json, from_directory ? source : fs::path());
  write_file_atomic(folder / "config.json", json.dump_pretty() + "\n");
  write_file_atomic(folder / "generation_config.json", generation.dump_pretty() + "\n");
  write_weights(folder, weights, options);
  if (from_directory) copy_tokenizer(source, folder);
}

}  // namespace stoker
