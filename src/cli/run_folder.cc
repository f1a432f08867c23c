#include "cli/run_folder.h"

#include <fmt/core.h>

#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfiguration = "run.toml";

void point_latest_at(const fs::path& folder) {
  fs::path link = folder.parent_path() / "latest";
  fs::path beside = folder.parent_path() / ".latest.tmp";
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(fs::symlink_status(link, error))) return;
  fs::remove(beside, error);
  fs::create_directory_symlink(folder.filename(), beside, error);
  if (!error) fs::rename(beside, link, error);
}

}  // namespace

void RunFolder::check(const fs::path& path, Existing existing) {
  std::error_code error;
  bool occupied = fs::exists(path, error) && !(fs::is_directory(path, error) && fs::is_empty(path, error));
  bool holds_run = fs::exists(path / kConfiguration, error);
  if (occupied && existing == Existing::kRefuse) {
    throw input_error(fmt::format(
        "The run folder {} exists already; pass --resume to go on with its run, --overwrite to replace "
        "it, or output=FOLDER for another one.",
        path.string()));
  }
  if (occupied && existing == Existing::kOverwrite && !holds_run) {
    throw input_error(fmt::format(
        "{} is not empty and holds no {}; it is not a run folder and is not overwritten. Choose another "
        "folder with output=FOLDER.",
        path.string(), kConfiguration));
  }
  if (existing == Existing::kResume && !holds_run) {
    throw input_error(
        fmt::format("There is no run to resume in {}: it holds no {}.", path.string(), kConfiguration));
  }
}

RunFolder::RunFolder(fs::path path, Existing existing) : path_(fs::absolute(path).lexically_normal()) {
  if (path_.filename().empty()) path_ = path_.parent_path();
  check(path_, existing);
  std::error_code error;
  if (existing == Existing::kOverwrite) fs::remove_all(path_, error);
  fs::create_directories(path_, error);
  if (error) {
    throw resource_error(
        fmt::format("The run folder {} cannot be created: {}.", path_.string(), error.message()));
  }
  point_latest_at(path_);
}

void RunFolder::save_configuration(const std::string& toml) const {
  write_file_atomic(path_ / kConfiguration, toml);
}

}  // namespace stoker
