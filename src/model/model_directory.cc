#include "model/model_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "model/safetensors.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestConfig = size_t{16} << 20;
// Everything that tokenizers of Hugging Face directories consist of.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",
};

std::string dump_shape(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// "a, b, c and 12 more".
std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 6;
  std::vector<std::string> shown(names.begin(), names.begin() + std::min(names.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

// Whether there is something at `path`; what cannot be looked at counts as absent.
bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

fs::path weights_file(const fs::path& directory) {
  fs::path path = directory / "model.safetensors";
  if (is_there(path)) return path;
  if (is_there(directory / "model.safetensors.index.json")) {
    throw input_error(
        fmt::format("{}: the weights are cut into shards, which Stoker does not read; merge them into one "
                    "model.safetensors "
                    "(transformers: save_pretrained with max_shard_size=\"1TB\").",
                    (directory / "model.safetensors.index.json").string()));
  }
  throw input_error(
      fmt::format("{} has no model.safetensors; name a Hugging Face model directory, or make one with "
                  "'stoker init'.",
                  directory.string()));
}

// Tensors that checkpoints may hold beside the manifest without a meaning of their own.
bool may_be_ignored(const ModelConfig& config, const std::string& name) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  return config.tie_word_embeddings && name == "lm_head.weight";
}

// The complaints about a file against the manifest of the configuration; empty when they fit.
std::vector<std::string> compare(const SafetensorsFile& file, const ModelConfig& config,
                                 std::span<const TensorInfo> manifest) {
  std::vector<std::string> missing;
  std::vector<std::string> misshapen;
  std::vector<std::string> surplus;
  std::set<std::string> expected;
  for (const TensorInfo& info : manifest) {
    expected.insert(info.name);
    const TensorView* tensor = file.find(info.name);
    if (tensor == nullptr) {
      missing.push_back(info.name);
    } else if (tensor->shape != info.shape) {
      misshapen.push_back(
          fmt::format("{} is {}, not {}", info.name, dump_shape(tensor->shape), dump_shape(info.shape)));
    }
  }
  for (const TensorView& tensor : file.tensors()) {
    if (!expected.contains(tensor.name) && !may_be_ignored(config, tensor.name))
      surplus.push_back(tensor.name);
  }
  std::vector<std::string> complaints;
  if (!missing.empty()) complaints.push_back("missing: " + list_names(missing));
  if (!misshapen.empty()) complaints.push_back("of another shape: " + list_names(misshapen));
  if (!surplus.empty()) complaints.push_back("unknown: " + list_names(surplus));
  return complaints;
}

// A tied checkpoint may store the shared matrix under both names, but not two different matrices.
void check_tied_head(const SafetensorsFile& file, const fs::path& path) {
  const TensorView* head = file.find("lm_head.weight");
  const TensorView* embedding = file.find("model.embed_tokens.weight");
  if (head == nullptr || embedding == nullptr) return;
  bool same =
      head->type == embedding->type && head->shape == embedding->shape &&
      std::equal(head->data.begin(), head->data.end(), embedding->data.begin(), embedding->data.end());
  if (!same) {
    throw input_error(
        fmt::format("{}: 'lm_head.weight' differs from 'model.embed_tokens.weight' although config.json sets "
                    "tie_word_embeddings; "
                    "set it to false, or remove the tensor.",
                    path.string()));
  }
}

void copy_tokenizer(const fs::path& source, const fs::path& folder) {
  std::error_code code;
  if (fs::equivalent(source, folder, code)) return;
  bool found = false;
  for (const char* name : kTokenizerFiles) {
    if (!is_there(source / name)) continue;
    write_file_atomic(folder / name, read_file(source / name));
    found = true;
  }
  if (!found) {
    throw input_error(
        fmt::format("{} has no tokenizer.json to copy into {}; name the directory of the model that was "
                    "trained.",
                    source.string(), folder.string()));
  }
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

}  // namespace

ModelConfig load_model_config(const fs::path& directory) {
  std::error_code code;
  if (!fs::is_directory(directory, code)) {
    throw input_error(
        fmt::format("{} is not a directory; name a Hugging Face model directory, or make one with "
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

Weights load_model_weights(const fs::path& directory) {
  ModelConfig config = load_model_config(directory);
  fs::path path = weights_file(directory);
  SafetensorsFile file(path);
  // The manifest is compared before the weights take memory.
  std::vector<TensorInfo> manifest = weight_manifest(config);
  std::vector<std::string> complaints = compare(file, config, manifest);
  if (!complaints.empty()) {
    throw input_error(fmt::format("{} does not fit config.json beside it; tensors {}.", path.string(),
                                  fmt::join(complaints, "; ")));
  }
  if (config.tie_word_embeddings) check_tied_head(file, path);
  Weights weights(config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    try {
      copy_to_float(*file.find(manifest[i].name), weights.tensor(i));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", path.string(), error.what()));
    }
  }
  return weights;
}

void save_model(const fs::path& folder, const Weights& weights, const fs::path& source) {
  const ModelConfig& config = weights.config();
  Json json = model_config_to_json(config);
  Json generation = generation_config(config, json, source);
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    const TensorInfo& info = weights.manifest()[i];
    tensors.push_back({info.name, TensorType::kF32, info.shape, std::as_bytes(weights.tensor(i))});
  }
  write_file_atomic(folder / "config.json", json.dump_pretty() + "\n");
  write_file_atomic(folder / "generation_config.json", generation.dump_pretty() + "\n");
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  if (!source.empty()) copy_tokenizer(source, folder);
}

}  // namespace stoker
