#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cli/run_lock.h"

namespace stoker {

// The folder of one run: run.toml (resolved), log.txt, metrics.jsonl, TensorBoard events, episodes/,
// checkpoints/, events.jsonl, trace/. Never overwritten unless asked for, and locked against other processes
// while an object of it, or a copy, lives.
class RunFolder {
 public:
  enum class Existing { kRefuse, kResume, kOverwrite };

  // Throws the Error that the constructor would, and leaves no trace: for checks before the long ones.
  static void check(const std::filesystem::path& path, Existing existing);

  // Creates the folder. One that holds a run is an Error(kInput) under kRefuse, kept under kResume, and
  // emptied under kOverwrite; kOverwrite refuses a folder that holds no run.toml, since it is somebody's
  // else. One into which another process writes is an Error(kInput) under each. Points `latest` beside the
  // folder at it. Under kResume a last line that was cut while it was written is removed from metrics.jsonl,
  // events.jsonl and the episodes, with a warning.
  RunFolder(std::filesystem::path path, Existing existing);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log_file() const { return path_ / "log.txt"; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path event_file() const { return path_ / "events.jsonl"; }
  std::filesystem::path episodes() const { return path_ / "episodes"; }
  std::filesystem::path trace() const { return path_ / "trace"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path model() const { return path_ / "model"; }  // the finished model

  // Writes the resolved configuration.
  void save_configuration(const std::string& toml) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const RunLock> lock_;
};

// Removes the last line of a JSON Lines file, with a warning, when it is no JSON: a write that was cut. A
// missing file is left alone; broken lines before the last one stay, for who reads them to refuse.
void remove_cut_line(const std::filesystem::path& path);

}  // namespace stoker
