#include "model/tensor_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/safetensors.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestIndex = size_t{64} << 20;
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

std::string dump_shape(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// "a, b, c and 12 more": every name is there unless there are very many.
std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 100;
  std::vector<std::string> shown(names.begin(), names.begin() + std::min(names.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

// Whether there is something at `path`; what cannot be looked at counts as absent.
bool file_exists(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

// One file, or the shards of an index.
class SafetensorsSource final : public TensorSource {
 public:
  explicit SafetensorsSource(const fs::path& directory) {
    const fs::path single = directory / "model.safetensors";
    const fs::path index = directory / "model.safetensors.index.json";
    if (file_exists(single)) {
      name_ = single.string();
      for (const TensorView& view : open(single).tensors()) add(view);
    } else if (file_exists(index)) {
      name_ = index.string();
      open_shards(directory);
    } else {
      throw input_error(
          fmt::format("{} has no model.safetensors and no model.safetensors.index.json; name a Hugging Face "
                      "model directory, or make one with 'stoker init'.",
                      directory.string()));
    }
  }

  const std::string& name() const override { return name_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  void read(size_t index, std::span<float> destination) const override {
    copy_to_float(*views_[index], destination);
  }

 private:
  const SafetensorsFile& open(const fs::path& path) {
    files_.push_back(std::make_unique<SafetensorsFile>(path));
    return *files_.back();
  }
  void add(const TensorView& view) {
    tensors_.push_back({view.name, view.shape});
    views_.push_back(&view);
  }

  void open_shards(const fs::path& directory) {
    const Json json = Json::parse(read_file(name_, kLargestIndex), name_);
    const Json* map = json.is_object() ? json.find("weight_map") : nullptr;
    if (map == nullptr || !map->is_object()) {
      throw input_error(fmt::format("{} has no object 'weight_map'; copy the file again.", name_));
    }
    std::map<std::string, const SafetensorsFile*> shards;
    std::map<std::string, bool> seen;
    for (const auto& [tensor, file] : map->as_object()) {
      // A plain name keeps an index from reaching out of its directory.
      if (!file.is_string() || file.as_string().empty() ||
          fs::path(file.as_string()).filename() != fs::path(file.as_string())) {
        throw input_error(
            fmt::format("{}: tensor '{}' lies in {}, which is no file name; copy the file again.", name_,
                        tensor, file.dump()));
      }
      if (!std::exchange(seen[tensor], true)) {
        const SafetensorsFile*& shard = shards[file.as_string()];
        if (shard == nullptr) shard = &open(directory / file.as_string());
        const TensorView* view = shard->find(tensor);
        if (view == nullptr) {
          throw input_error(
              fmt::format("{}: shard {} has no tensor '{}', which the index says it has; copy "
                          "both again.",
                          name_, file.as_string(), tensor));
        }
        add(*view);
      } else {
        throw input_error(fmt::format("{}: tensor '{}' occurs twice; copy the file again.", name_, tensor));
      }
    }
  }

  std::string name_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<const TensorView*> views_;
};

// Where each tensor of the manifest lies in the source.
class Matching {
 public:
  Matching(const TensorSource& source, const ModelConfig& config, std::span<const TensorInfo> manifest)
      : source_(source) {
    for (size_t i = 0; i < source.tensors().size(); ++i) index_[source.tensors()[i].name] = i;
    std::vector<std::string> missing, misshapen, surplus;
    std::map<std::string, size_t> rest = index_;
    for (const TensorInfo& info : manifest) {
      const auto found = index_.find(info.name);
      rest.erase(info.name);
      if (found == index_.end()) {
        missing.push_back(info.name);
      } else if (const TensorInfo& stored = source.tensors()[found->second]; stored.shape != info.shape) {
        misshapen.push_back(
            fmt::format("{} is {}, not {}", info.name, dump_shape(stored.shape), dump_shape(info.shape)));
      }
    }
    for (const auto& [name, i] : rest) {
      if (!may_be_ignored(config, name)) surplus.push_back(name);
    }
    std::vector<std::string> complaints;
    if (!missing.empty()) complaints.push_back("missing: " + list_names(missing));
    if (!misshapen.empty()) complaints.push_back("of another shape: " + list_names(misshapen));
    if (!surplus.empty()) complaints.push_back("unknown: " + list_names(surplus));
    if (complaints.empty()) return;
    throw input_error(fmt::format("{} does not fit the configuration of the model; tensors {}.",
                                  source.name(), fmt::join(complaints, "; ")));
  }

  bool has(const char* name) const { return index_.contains(name); }
  void read(const std::string& name, std::span<float> destination) const {
    try {
      source_.read(index_.at(name), destination);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", source_.name(), error.what()));
    }
  }

 private:
  // Tensors that checkpoints may hold beside the manifest without a meaning of their own.
  static bool may_be_ignored(const ModelConfig& config, const std::string& name) {
    return name.ends_with(".rotary_emb.inv_freq") || (config.tie_word_embeddings && name == kHead);
  }

  const TensorSource& source_;
  std::map<std::string, size_t> index_;
};

// A tied checkpoint may store the shared matrix under both names, but not two different matrices.
void check_tied_head(const TensorSource& source, const Matching& matching, std::span<const float> embedding) {
  if (!matching.has(kHead)) return;
  const auto& tensors = source.tensors();
  const auto head = std::ranges::find(tensors, kHead, &TensorInfo::name);
  bool same = head->element_count() == static_cast<int64_t>(embedding.size());
  if (same) {
    std::vector<float> values(embedding.size());
    matching.read(kHead, values);
    same = std::ranges::equal(values, embedding);
  }
  if (same) return;
  throw input_error(fmt::format(
      "{}: '{}' differs from '{}' although config.json sets tie_word_embeddings; set it to false, "
      "or remove the tensor.",
      source.name(), kHead, kEmbedding));
}

// All exponents are looked at, in blocks that the compiler can turn into vectors.
bool all_finite(std::span<const float> values) {
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    bool finite = true;
    for (const float value : values.subspan(begin, std::min(kBlock, values.size() - begin))) {
      finite &= std::abs(value) <= std::numeric_limits<float>::max();
    }
    if (!finite) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<TensorSource> open_safetensors(const fs::path& directory) {
  return std::make_unique<SafetensorsSource>(directory);
}

Weights read_weights(const TensorSource& source, const ModelConfig& config, const LoadProgress& progress) {
  // The manifest is compared before the weights take memory.
  const Matching matching(source, config, weight_manifest(config));
  Weights weights(config);
  const auto total = static_cast<int64_t>(weights.values().size());
  int64_t done = 0;
  for (size_t i = 0; i < weights.manifest().size(); ++i) {
    const std::string& name = weights.manifest()[i].name;
    matching.read(name, weights.tensor(i));
    if (!all_finite(weights.tensor(i))) {
      throw input_error(fmt::format("{}: tensor '{}' holds a number that is not finite; the model is broken.",
                                    source.name(), name));
    }
    done += static_cast<int64_t>(weights.tensor(i).size());
    if (progress) progress(done, total);
  }
  if (config.tie_word_embeddings) check_tied_head(source, matching, weights.tensor(kEmbedding));
  return weights;
}

}  // namespace stoker
