#pragma once

#include <filesystem>
#include <functional>

namespace stoker::detail {

// The parts of write_folder_atomic between which a process can end. For its test; others use base/file.h.
enum class FolderStep {
  kFilled,     // under the temporary name, perhaps not on the disk
  kFlushed,    // on the disk
  kMovedAway,  // without exchange only: the old folder has a temporary name, none has the right one
  kInPlace,    // the new folder has its name, the old one a temporary name
};

struct FolderWriting {
  // Whether the file system is asked to exchange two names at once.
  bool exchange = true;
  // Called after each step.
  std::function<void(FolderStep)> after_step = [](FolderStep) {};
};

void write_folder(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path& folder)>& fill,
                  const FolderWriting& writing);

}  // namespace stoker::detail
