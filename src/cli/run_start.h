#pragma once

#include <filesystem>
#include <optional>

#include "cli/run_file.h"
#include "cli/run_folder.h"
#include "cli/session.h"
#include "train/checkpoint.h"

namespace stoker {

// What a verb that trains begins with: the run folder, its checkpoints, and the state to go on from.
struct RunStart {
  RunFolder folder;
  CheckpointStore checkpoints;
  TrainState state;                      // fresh, or of the checkpoint
  std::optional<Checkpoint> checkpoint;  // of a resumed run

  // The folder whose tokenizer the models written here get.
  const std::filesystem::path& tokenizer_source() const { return folder.path(); }

  std::optional<int64_t> resume_step() const {
    return checkpoint ? std::optional<int64_t>(state.step) : std::nullopt;
  }
};

// Throws the Error(kInput) of a run folder that the flags do not allow, or that would overwrite the model or
// the data that the run reads; touches nothing.
void check_run_folder(const RunFileArguments& arguments, const RunConfig& config);

// Creates or opens the run folder as the flags say, opens its log, and writes the resolved configuration and
// the tokenizer's files (a GGUF file's as those of a model directory) into it. Under --resume the newest
// whole checkpoint is found; a run folder without one starts from the beginning, with a warning, and a run
// file that differs from the run's is told.
RunStart start_run(const RunFileArguments& arguments, const RunFile& file, const std::string& phase);

// Creates the run folder of a verb without checkpoints, opens its log and writes configuration and tokenizer
// into it.
RunFolder open_run_folder(const RunFileArguments& arguments, const RunFile& file);

// The learner's weights: the model's, or those of the checkpoint.
Weights starting_weights(const RunStart& start, const Session& session);

}  // namespace stoker
