#include "train/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "model/model_directory.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFormatVersion = 1;
constexpr const char* kMarker = "complete";
constexpr const char* kState = "state.json";
constexpr const char* kEvaluation = "evaluation.json";

template <typename T>
Json array_of(const std::vector<T>& values) {
  Json::Array array;
  for (const T& value : values) array.emplace_back(value);
  return array;
}

Json object_of(const std::map<std::string, double>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object.set(name, value);
  return object;
}

// The step in "step_120"; empty for any other name.
std::optional<int64_t> step_of(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with("step_")) return std::nullopt;
  int64_t step = 0;
  auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

// Writes the marker: the files that make up the folder, with their sizes.
void write_marker(const fs::path& folder) {
  std::map<std::string, int64_t> sizes;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    sizes[entry.path().lexically_relative(folder).string()] = static_cast<int64_t>(entry.file_size());
  }
  Json files = Json::object();
  for (const auto& [name, size] : sizes) files.set(name, size);
  write_file_atomic(folder / kMarker,
                    Json::object({{"format", kFormatVersion}, {"files", files}}).dump_pretty());
}

// Empty when the folder is whole, else a sentence that says what is wrong with it.
std::string why_broken(const fs::path& folder) {
  if (!fs::exists(folder / kMarker))
    return fmt::format("it has no file '{}', so it was never finished.", kMarker);
  try {
    Json marker = Json::parse(read_file(folder / kMarker), (folder / kMarker).string());
    if (marker.at("format").as_int() != kFormatVersion) {
      return fmt::format("its format is {}, this program reads {}.", marker.at("format").as_int(),
                         kFormatVersion);
    }
    for (const auto& [name, size] : marker.at("files").as_object()) {
      std::error_code error;
      auto actual = fs::file_size(folder / name, error);
      if (error) return fmt::format("its file '{}' is missing.", name);
      if (static_cast<int64_t>(actual) != size.as_int()) {
        return fmt::format("its file '{}' has {} bytes instead of {}.", name, actual, size.as_int());
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Takes a folder away so that a crash in between never leaves something that looks whole.
void remove_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / kMarker, ignored);
  fs::remove_all(folder, ignored);
}

// Points the symbolic link at a folder beside it; readers see the old or the new target.
void point(const fs::path& link, const fs::path& target) {
  fs::path beside = link.parent_path() / fmt::format(".{}.{}.tmp", link.filename().string(), ::getpid());
  std::error_code error;
  fs::remove(beside, error);
  fs::create_directory_symlink(target.filename(), beside, error);
  if (!error) fs::rename(beside, link, error);
  if (error) {
    throw resource_error(fmt::format("Cannot point {} at {}: {}; use a file system with symbolic links.",
                                     link.string(), target.string(), error.message()));
  }
}

}  // namespace

Json TrainState::to_json() const {
  return Json::object({{"format", kFormatVersion},
                       {"phase", phase},
                       {"step", step},
                       {"version", version},
                       {"skipped_steps", skipped_steps},
                       {"next_ordinal", next_ordinal},
                       {"open_ordinals", array_of(open_ordinals)},
                       {"unfinished_evaluations", array_of(unfinished_evaluations)},
                       {"recent_losses", array_of(recent_losses)},
                       {"counters", object_of(counters)},
                       {"run_digest", run_digest}});
}

TrainState TrainState::from_json(const Json& json) {
  if (json.at("format").as_int() != kFormatVersion) {
    throw input_error(fmt::format("The checkpoint's state has format {}; this program reads {}.",
                                  json.at("format").as_int(), kFormatVersion));
  }
  TrainState state{.phase = json.at("phase").as_string(),
                   .step = json.at("step").as_int(),
                   .version = json.at("version").as_int(),
                   .skipped_steps = json.at("skipped_steps").as_int(),
                   .next_ordinal = json.at("next_ordinal").as_uint(),
                   .run_digest = json.at("run_digest").as_string()};
  for (const Json& ordinal : json.at("open_ordinals").as_array())
    state.open_ordinals.push_back(ordinal.as_uint());
  for (const Json& step : json.at("unfinished_evaluations").as_array())
    state.unfinished_evaluations.push_back(step.as_int());
  for (const Json& loss : json.at("recent_losses").as_array())
    state.recent_losses.push_back(loss.as_double());
  for (const auto& [name, value] : json.at("counters").as_object()) state.counters[name] = value.as_double();
  return state;
}

CheckpointStore::CheckpointStore(fs::path folder, int64_t keep_last, fs::path tokenizer_source)
    : folder_(std::move(folder)), keep_last_(keep_last), tokenizer_source_(std::move(tokenizer_source)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw resource_error(fmt::format("Cannot create the folder {}: {}; choose another run folder.",
                                     folder_.string(), error.message()));
  }
}

Checkpoint CheckpointStore::save(const TrainState& state, const Weights& weights, const Learner& learner) {
  if (weights.version() != state.version) {
    throw internal_error(fmt::format("A checkpoint of version {} was given weights of version {}.",
                                     state.version, weights.version()));
  }
  Checkpoint checkpoint{.folder = folder_ / fmt::format("step_{}", state.step), .state = state};
  write_folder_atomic(checkpoint.folder, [&](const fs::path& folder) {
    fs::create_directory(folder / "model");
    save_model(folder / "model", weights, tokenizer_source_);
    fs::create_directory(folder / "optimizer");
    learner.save_optimizer(folder / "optimizer");
    write_file_atomic(folder / kState, state.to_json().dump_pretty());
    write_marker(folder);
  });
  point(folder_ / "latest", checkpoint.folder);
  remove_old(state.step);
  return checkpoint;
}

void CheckpointStore::save_best(const Weights& weights, int64_t step, double score,
                                const MetricMap& metrics) {
  fs::path target = folder_ / fmt::format("best_step_{}", step);
  write_folder_atomic(target, [&](const fs::path& folder) {
    fs::create_directory(folder / "model");
    save_model(folder / "model", weights, tokenizer_source_);
    Json evaluation = Json::object({{"format", kFormatVersion},
                                    {"step", step},
                                    {"version", weights.version()},
                                    {"score", score},
                                    {"metrics", object_of(metrics)}});
    write_file_atomic(folder / kEvaluation, evaluation.dump_pretty());
    write_marker(folder);
  });
  point(folder_ / "best", target);
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if ((name.starts_with("best_step_") && entry.path() != target) || name.starts_with(".best_step_")) {
      earlier.push_back(entry.path());
    }
  }
  for (const fs::path& folder : earlier) remove_checkpoint(folder);
}

std::optional<Checkpoint> CheckpointStore::newest() const {
  std::map<int64_t, fs::path, std::greater<>> candidates;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (!entry.is_directory() || entry.is_symlink()) continue;
    if (auto step = step_of(entry.path())) candidates[*step] = entry.path();
  }
  for (const auto& [step, folder] : candidates) {
    std::string wrong = why_broken(folder);
    if (wrong.empty()) {
      try {
        Json state = Json::parse(read_file(folder / kState), (folder / kState).string());
        return Checkpoint{.folder = folder, .state = TrainState::from_json(state)};
      } catch (const Error& error) {
        wrong = error.what();
      }
    }
    log_warning("Passing over the checkpoint {}: {}", folder.string(), wrong);
  }
  return std::nullopt;
}

std::optional<BestModel> CheckpointStore::best() const {
  fs::path folder = folder_ / "best";
  if (!fs::exists(folder)) return std::nullopt;
  std::string wrong = why_broken(folder);
  if (!wrong.empty()) {
    log_warning("Passing over {}: {}", folder.string(), wrong);
    return std::nullopt;
  }
  try {
    Json evaluation = Json::parse(read_file(folder / kEvaluation), (folder / kEvaluation).string());
    return BestModel{.folder = folder,
                     .step = evaluation.at("step").as_int(),
                     .score = evaluation.at("score").as_double()};
  } catch (const Error& error) {
    log_warning("Passing over {}: {}", folder.string(), error.what());
    return std::nullopt;
  }
}

// Only steps below the one just saved are candidates: later ones belong to a history that a resume left.
void CheckpointStore::remove_old(int64_t newest_step) const {
  std::set<int64_t, std::greater<>> steps;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(".step_") && name.ends_with(".tmp")) leftovers.push_back(entry.path());
    if (!entry.is_directory() || entry.is_symlink()) continue;
    auto step = step_of(entry.path());
    if (!step || *step > newest_step) continue;
    if (why_broken(entry.path()).empty()) {
      steps.insert(*step);
    } else {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& leftover : leftovers) remove_checkpoint(leftover);
  int64_t kept = 0;
  for (int64_t step : steps) {
    if (++kept > keep_last_) remove_checkpoint(folder_ / fmt::format("step_{}", step));
  }
}

}  // namespace stoker
