#pragma once

#include <filesystem>
#include <string>

#include "base/figure_report.h"

namespace stoker {

// Throws the Error of writing a file (base/file.h) where `path` cannot be written: for checks before the work
// whose figures go there. Leaves nothing; what is at `path` stays as it is. Devices and pipes are not tried.
// A folder that does not exist yet, such as that of a run, is one that write_figures can make.
void check_output_file(const std::filesystem::path& path);

// Write a file, and make its folder where it is missing; an empty path: nothing. Throw the Error of writing a
// file.
void write_text(const std::string& text, const std::filesystem::path& path);
void write_figures(const FigureReport& report, const std::filesystem::path& path);

// Throws Error(kResource) where the folder `path`, or the nearest one above it that exists, takes no files:
// for checks before the work that makes it. `what` it is goes into the sentence ("run folder").
void check_output_folder(const std::filesystem::path& path, const std::string& what);

}  // namespace stoker
