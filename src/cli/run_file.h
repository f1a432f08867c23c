#pragma once

#include <string>

#include "cli/command.h"
#include "cli/run_config.h"

namespace stoker {

// A run file read with its overrides.
struct RunFile {
  RunConfig config;
  std::string resolved;  // as TOML with the origin of each value
  std::string digest;    // of everything that changes a result: without output, threads and the display
};

// Throws Error(kInput) for what is wrong in itself; values that do not fit together are named by both keys.
RunFile read_run_file(const RunFileArguments& arguments);

// Names an evaluation's sampling in metrics and episodes: "greedy" for temperature 0, else "temperature_0.7".
std::string sampling_name(double temperature);

}  // namespace stoker
