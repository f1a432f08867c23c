#pragma once

#include <filesystem>
#include <string>

namespace stoker {

// Throws the Error of writing a file (base/file.h) where `path` cannot be written: for checks before the work
// whose figures go there. Leaves nothing; what is at `path` stays as it is. Devices and pipes are not tried.
void check_output_file(const std::filesystem::path& path);

// Throws Error(kResource) where the folder `path`, or the nearest one above it that exists, takes no files:
// for checks before the work that makes it. `what` it is goes into the sentence ("run folder").
void check_output_folder(const std::filesystem::path& path, const std::string& what);

}  // namespace stoker
