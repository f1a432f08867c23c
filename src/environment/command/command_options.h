#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "io/process.h"

namespace stoker {

// How to run the processes of one command: what environment.command, tools.command and reward.command share.
struct CommandOptions {
  std::vector<std::string> command;
  int processes = 1;
  int episodes_per_process = 256;
  std::string working_folder;
  std::vector<std::string> environment_variables;
  double start_timeout_seconds = 60;
  double heartbeat_seconds = 10;
  double heartbeat_timeout_seconds = 30;
  int restarts = 20;
  int stuck_limit = 8;
  int64_t max_line_bytes = int64_t{16} << 20;

  template <typename V>
  void for_each_field(V& visit) {
    visit("command", command, "Program and arguments that speak docs/protocol.md; empty: none.");
    visit("processes", processes,
          "So many processes; episodes are spread over them. Those that lost theirs come again in up to half "
          "as "
          "many more, apart from the others.",
          between(1, 1024));
    visit("episodes_per_process", episodes_per_process,
          "Most episodes that one process has open; further ones wait.", between(1, 1000000));
    visit("working_folder", working_folder, "Folder in which the processes run; empty: Stoker's own.");
    visit("environment_variables", environment_variables,
          "\"NAME=value\", added to Stoker's own environment variables.");
    visit("start_timeout_seconds", start_timeout_seconds, "From the start of a process to its hello.",
          above(0));
    visit("heartbeat_seconds", heartbeat_seconds, "A process is asked so often whether it is alive.",
          above(0));
    visit("heartbeat_timeout_seconds", heartbeat_timeout_seconds,
          "A process that does not say so within this time is taken for hung, killed and replaced.",
          above(0));
    visit(
        "restarts", restarts,
        "Processes that are replaced in a row, with nothing between that ended well; one more, and they are "
        "given up.",
        at_least(0));
    visit("stuck_limit", stuck_limit,
          "A process with so many requests that were given up and still hold a thread is replaced.",
          at_least(1));
    visit("max_line_bytes", max_line_bytes, "Longest message in either direction.",
          between(65536, 1073741824));
  }
};

// Throws Error(kInput) that starts with `section` for values that do not fit: no program, a variable without
// '='.
void check_command_options(const CommandOptions& options, const std::string& section);

}  // namespace stoker
