#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "trajectory/episode_record.h"

namespace stoker {

// The episodes of a run: JSON Lines files `000000.jsonl`, `000001.jsonl`, ... in one folder, one
// EpisodeRecord a line, in the order in which the episodes ended.
//
//   EpisodeWriter writer(run_folder / "episodes");
//   writer.append(record);
class EpisodeWriter {
 public:
  // Creates the folder; goes on behind what is there, a cut last line removed. A file that has reached
  // `max_file_bytes` is followed by the next one, so that a file may pass the limit by one record.
  explicit EpisodeWriter(std::filesystem::path folder, size_t max_file_bytes = size_t{64} << 20);

  void append(const EpisodeRecord& record);  // throws Error(kResource) when the disk is full
  void flush_to_disk();

 private:
  void open(uint32_t number);

  std::filesystem::path folder_;
  size_t max_file_bytes_;
  uint32_t number_ = 0;
  size_t file_bytes_ = 0;
  std::optional<LineWriter> writer_;
};

// Where a record stands, for messages and for reading it again.
struct EpisodePlace {
  std::filesystem::path file;
  size_t line = 0;  // from 1
};

// Files of the folder in the order of their numbers; other names are passed over. A missing folder is an
// Error(kInput).
std::vector<std::filesystem::path> list_episode_files(const std::filesystem::path& folder);

// Calls `visit` for each record, oldest first, until it returns false; holds one record in memory. A last
// line without its line feed (a cut write, or one under way) is passed over with a warning; any other line
// that is no record throws Error(kInput) naming file and line. Lines end at '\n' only.
void for_each_episode(
    const std::filesystem::path& folder,
    const std::function<bool(const EpisodeRecord& record, const EpisodePlace& place)>& visit);

// All records of this id, oldest first: evaluations at several steps, training and evaluation use the same
// ids. Parses the matching lines only.
std::vector<EpisodeRecord> find_episodes(const std::filesystem::path& folder, const EpisodeId& id);

// Removes the records for which `keep` is false, file by file, each written beside and renamed: what a run
// that goes on from a checkpoint drops, because it plays those episodes again. A cut last line is dropped
// too.
void keep_episodes(const std::filesystem::path& folder,
                   const std::function<bool(const EpisodeRecord& record)>& keep);

}  // namespace stoker
