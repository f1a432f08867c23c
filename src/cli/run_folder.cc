#include "cli/run_folder.h"

#include <fmt/core.h>

#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/output_file.h"
#include "trajectory/episode_file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfiguration = "run.toml";
constexpr size_t kMaxLineBytes = size_t{1} << 30;  // as episodes may have

void point_latest_at(const fs::path& folder) {
  fs::path link = folder.parent_path() / "latest";
  fs::path beside = folder.parent_path() / ".latest.tmp";
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(fs::symlink_status(link, error))) return;
  fs::remove(beside, error);
  fs::create_directory_symlink(folder.filename(), beside, error);
  if (!error) fs::rename(beside, link, error);
}

// Absolute, without a slash at its end, and not a link such as runs/latest but what it leads to.
fs::path folder_path(const fs::path& given) {
  if (given.empty()) {
    throw input_error("The run folder has an empty name; choose a folder with output=FOLDER.");
  }
  fs::path path = fs::absolute(given).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  std::error_code error;  // of a link that leads nowhere: taken as it is
  const fs::path target = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  return error ? path : target;
}

// Whether the folder holds anything beside the lock file, or is no folder.
bool is_occupied(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return fs::exists(path, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.path().filename() != kRunLockFile) return true;
  }
  return false;
}

void check_content(const fs::path& path, RunFolder::Existing existing) {
  std::error_code error;
  const bool occupied = is_occupied(path);
  const bool holds_run = fs::exists(path / kConfiguration, error);
  if (occupied && existing == RunFolder::Existing::kRefuse) {
    throw input_error(fmt::format(
        "The run folder {} exists already; pass --resume to go on with its run, --overwrite to replace "
        "it, or output=FOLDER for another one.",
        path.string()));
  }
  if (occupied && existing == RunFolder::Existing::kOverwrite && !holds_run) {
    throw input_error(fmt::format(
        "{} is not empty and holds no {}; it is not a run folder and is not overwritten. Choose another "
        "folder with output=FOLDER.",
        path.string(), kConfiguration));
  }
  if (existing == RunFolder::Existing::kResume && !holds_run) {
    throw input_error(
        fmt::format("There is no run to resume in {}: it holds no {}.", path.string(), kConfiguration));
  }
}

// Removes all but the lock file; what says that this is a run folder goes last, so that an overwrite that was
// cut off can be repeated.
void remove_content(const fs::path& path) {
  std::error_code error;
  const auto check = [&error](const fs::path& what) {
    if (error) throw resource_error(fmt::format("{} cannot be removed: {}.", what.string(), error.message()));
  };
  std::vector<fs::path> content;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const fs::path name = entry.path().filename();
    if (name != kRunLockFile && name != kConfiguration) content.push_back(entry.path());
  }
  check(path);
  content.push_back(path / kConfiguration);
  for (const fs::path& entry : content) {
    fs::remove_all(entry, error);
    check(entry);
  }
}

}  // namespace

void remove_cut_line(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  size_t begin = 0, number = 0;  // of the last line
  std::string last;
  bool whole = true;
  for_each_line(
      path,
      [&](std::string_view line, size_t line_number, bool complete) {
        begin += number > 0 ? last.size() + 1 : 0;
        number = line_number;
        last = line;
        whole = complete;
        return true;
      },
      kMaxLineBytes);
  if (number == 0 || (whole && Json::try_parse(last))) return;
  fs::resize_file(path, begin, error);
  if (error) throw resource_error(fmt::format("Cannot cut {}: {}.", path.string(), error.message()));
  log_warning("{}, line {} was cut while it was written; it is removed.", path.string(), number);
}

void RunFolder::check(const fs::path& given, Existing existing) {
  const fs::path path = folder_path(given);
  RunLock::check_free(path);
  check_content(path, existing);
  check_output_folder(path, "run folder");
}

RunFolder::RunFolder(fs::path path, Existing existing) : path_(folder_path(path)) {
  check_content(path_, existing);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    throw resource_error(
        fmt::format("The run folder {} cannot be created: {}.", path_.string(), error.message()));
  }
  lock_ = std::make_shared<RunLock>(path_);
  check_content(path_, existing);  // another run may have come and gone before the lock
  if (existing == Existing::kOverwrite) remove_content(path_);
  if (existing == Existing::kResume) {
    remove_cut_line(metrics_file());
    remove_cut_line(event_file());
    if (fs::is_directory(episodes(), error)) {
      for (const fs::path& file : list_episode_files(episodes())) remove_cut_line(file);
    }
  }
  point_latest_at(path_);
}

void RunFolder::save_configuration(const std::string& toml) const {
  write_file_atomic(path_ / kConfiguration, toml);
}

}  // namespace stoker
