#include "cli/run_start.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/model_renderer.h"
#include "model/gguf_tokenizer.h"
#include "model/model_directory.h"
#include "observe/metrics_server.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

RunFolder::Existing existing_policy(const RunFileArguments& arguments) {
  if (arguments.resume) return RunFolder::Existing::kResume;
  return arguments.overwrite ? RunFolder::Existing::kOverwrite : RunFolder::Existing::kRefuse;
}

// The run folder keeps what its model came with beside the weights, for the models that the run writes: what
// a GGUF file holds in the files of a model directory, and the run's own chat template. All is read before
// anything is replaced: the template may be the one that lies in the folder.
void keep_tokenizer(const ModelConfigSection& model, const fs::path& folder) {
  const std::optional<ChatTemplate> chosen = chosen_chat_template(model.chat_template, "model.chat_template");
  const fs::path generation = fs::path(model.path) / "generation_config.json";
  if (const fs::path gguf = gguf_with_tokenizer(model.path); !gguf.empty()) {
    const GgufFile file(gguf);
    const Json tokenizer = gguf_vocabulary_json(read_gguf_vocabulary(file), file.name());
    const Json config = gguf_tokenizer_config(file);
    const std::optional<ChatTemplate> own = load_chat_template(model.path);
    remove_tokenizer(folder);
    write_file_atomic(folder / "tokenizer.json", tokenizer.dump() + "\n");
    write_file_atomic(folder / "tokenizer_config.json", config.dump_pretty() + "\n");
    if (gguf != model.path && ChatTemplate::is_in(model.path))
      write_file_atomic(folder / "chat_template.jinja", own->source(false));
  } else {
    copy_tokenizer(model.path, folder);
  }
  fs::remove(folder / "generation_config.json");
  if (fs::exists(generation)) write_file_atomic(folder / "generation_config.json", read_file(generation));
  if (chosen) write_file_atomic(folder / "chat_template.jinja", chosen->source(false));
}

// Evaluations end after checkpoints that knew of them as under way: those in the metrics have ended. One of
// the checkpoint's own step is repeated all the same, since the best model may not have been saved yet.
void forget_recorded_evaluations(const fs::path& metrics, TrainState& state) {
  std::vector<int64_t>& unfinished = state.unfinished_evaluations;
  if (unfinished.empty() || !fs::exists(metrics)) return;
  for_each_line(metrics, [&](std::string_view line, size_t, bool complete) {
    const Result<Json> row = complete ? Json::try_parse(line) : Json();
    if (!row || !row->is_object()) return true;  // told by who rewrites the file
    const Json* step = row->find("step");
    if (step == nullptr || !step->is_integer() || step->as_int() >= state.step) return true;
    const Json::Object& members = row->as_object();
    const bool evaluates = std::any_of(members.begin(), members.end(),
                                       [](const auto& member) { return member.first.starts_with("eval/"); });
    if (evaluates) std::erase(unfinished, step->as_int());
    return true;
  });
}

bool lies_inside(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  fs::path inner = fs::weakly_canonical(path, error), outer = fs::weakly_canonical(folder, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void check_run_folder(const RunFileArguments& arguments, const RunConfig& config) {
  RunFolder::check(config.output, existing_policy(arguments));
  if (!arguments.overwrite) return;
  for (const std::string& input : {config.model.path, config.model.chat_template, config.sft.conversations}) {
    if (input.empty() || !lies_inside(input, config.output)) continue;
    throw input_error(
        fmt::format("{} lies inside the run folder {}, which --overwrite would delete; choose another "
                    "folder with output=FOLDER.",
                    input, config.output));
  }
}

RunFolder open_run_folder(const RunFileArguments& arguments, const RunFile& file) {
  RunFolder folder(file.config.output, existing_policy(arguments));
  open_log_file(folder.log_file());
  folder.save_configuration(file.resolved);
  keep_tokenizer(file.config.model, folder.path());
  return folder;
}

RunStart start_run(const RunFileArguments& arguments, const RunFile& file, const std::string& phase) {
  // A port that another program has is told before a folder is made.
  if (const int port = file.config.metrics_port; port != 0) MetricsServer(static_cast<uint16_t>(port));
  RunFolder folder = open_run_folder(arguments, file);
  CheckpointStore checkpoints(folder.checkpoints(), file.config.checkpoint.keep_last, folder.path());
  RunStart start{.folder = folder, .checkpoints = checkpoints, .state = {}, .checkpoint = std::nullopt};
  start.state.phase = phase;
  if (arguments.resume) {
    start.checkpoint = checkpoints.newest();
    if (start.checkpoint) {
      start.state = start.checkpoint->state;
      forget_recorded_evaluations(folder.metrics_file(), start.state);
    } else {
      log_warning("{} holds no checkpoint; the run starts from the beginning.", folder.path().string());
    }
    if (start.state.phase != phase) {
      throw input_error(
          fmt::format("The run in {} is of 'stoker {}', not of 'stoker {}'; choose another folder with "
                      "output=FOLDER.",
                      folder.path().string(), start.state.phase, phase));
    }
    if (start.checkpoint && start.state.run_digest != file.digest) {
      log_warning(
          "The run file differs from the one of the checkpoint; the resumed run need not equal an "
          "uninterrupted "
          "one.");
    }
  }
  start.state.run_digest = file.digest;
  return start;
}

Weights starting_weights(const RunStart& start, const Session& session) {
  if (!start.checkpoint) return *session.weights();
  Weights weights = load_model_weights(start.checkpoint->model_folder());
  weights.set_version(start.state.version);
  return weights;
}

}  // namespace stoker
