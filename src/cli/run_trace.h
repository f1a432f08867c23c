#pragma once

#include <filesystem>

#include "observe/trace_summary.h"

namespace stoker {

// Where the time of the run in `run_folder` went, from its trace and the settings in its event log. Throws
// Error(kInput) when it lacks either.
TraceSummary summarize_run(const std::filesystem::path& run_folder);

}  // namespace stoker
