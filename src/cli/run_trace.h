#pragma once

#include <filesystem>
#include <string>

#include "observe/trace_summary.h"

namespace stoker {

// Where the time of the run in `run_folder` went, from its trace and the settings in its event log. Throws
// Error(kInput) when it lacks either.
TraceSummary summarize_run(const std::filesystem::path& run_folder);

// How the run was set when it was started last, and its depth then. Throws Error(kInput) when the event log
// does not say.
TraceRunSettings trace_settings(const std::filesystem::path& run_folder);

// A line about what an adaptive run found since its last start; empty: its depth is fixed. Throws as above.
std::string describe_depth(const std::filesystem::path& run_folder);

}  // namespace stoker
