#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/metrics.h"
#include "compute/learner.h"
#include "model/weights.h"

namespace stoker {

// Where a run stands at a step boundary, beside its weights and its optimizer. With the run file it is all
// that a run needs to go on: schedules, orders and random draws are functions of these numbers.
struct TrainState {
  std::string phase;                    // "train" or "sft"
  int64_t step = 0;                     // batches consumed; position of the schedules
  int64_t version = 0;                  // optimizer updates: step less the steps that had nothing to train
  int64_t skipped_steps = 0;            // of those
  uint64_t next_ordinal = 0;            // position in the task stream (or of the demonstrations)
  std::vector<uint64_t> open_ordinals;  // below next_ordinal, started but not trained: they come first
  std::vector<int64_t> unfinished_evaluations;  // steps whose evaluation was due and had not ended
  std::vector<double> recent_losses;            // sft: the window of stop_loss
  std::map<std::string, double> counters;       // running totals for the metrics
  std::string run_digest;                       // of the resolved run file

  Json to_json() const;
  static TrainState from_json(const Json& json);  // throws Error(kInput)
  bool operator==(const TrainState&) const = default;
};

// A checkpoint on disk: checkpoints/step_N/{model/, optimizer/, state.json, complete}. `complete` is the
// marker: it is written last and lists every file with its size.
struct Checkpoint {
  std::filesystem::path folder;
  TrainState state;

  std::filesystem::path model_folder() const { return folder / "model"; }
  std::filesystem::path optimizer_folder() const { return folder / "optimizer"; }
};

// The best evaluated model so far: checkpoints/best_step_N/{model/, evaluation.json, complete}, to which
// checkpoints/best points.
struct BestModel {
  std::filesystem::path folder;
  int64_t step = 0;
  double score = 0;
};

// The checkpoints of one run folder. A checkpoint is written beside its place, flushed and renamed: a crash
// or a full disk leaves the earlier ones as they were. Blocking; one writer a folder.
class CheckpointStore {
 public:
  // `folder` is made when missing. `tokenizer_source`: the model directory whose tokenizer files go into
  // every checkpoint's model/; may be empty. Keeps the last `keep_last` >= 1.
  CheckpointStore(std::filesystem::path folder, int64_t keep_last,
                  std::filesystem::path tokenizer_source = {});

  // Saves step_N, points `latest` at it and removes what is older than the kept ones. Weights and optimizer
  // must be of the same version. Throws Error(kResource) naming the file when the disk refuses; nothing is
  // lost then.
  Checkpoint save(const TrainState& state, const Weights& weights, const Learner& learner);

  // Saves the model, points `best` at it and removes the one before.
  void save_best(const Weights& weights, int64_t step, double score, const MetricMap& metrics);

  // The whole checkpoint with the highest step; broken ones (no marker, a missing or short file, an
  // unreadable state) are passed over with a warning.
  std::optional<Checkpoint> newest() const;
  std::optional<BestModel> best() const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  void remove_old(int64_t newest_step) const;

  std::filesystem::path folder_;
  int64_t keep_last_;
  std::filesystem::path tokenizer_source_;
};

}  // namespace stoker
