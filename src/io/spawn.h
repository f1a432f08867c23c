#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace stoker {

// Two connected descriptors, both close-on-exec and above 2.
struct DescriptorPair {
  Descriptor ours;
  Descriptor theirs;
};

// A pipe whose reading end is ours (`we_read`) or theirs. Throws Error(kResource) when there are no
// descriptors left.
DescriptorPair make_pipe(bool we_read);
// A stream socket pair: a pipe whose closed other end raises no SIGPIPE when written with MSG_NOSIGNAL.
DescriptorPair make_socket_pair();

struct SpawnRequest {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // the whole of it, "NAME=value"
  std::filesystem::path working_folder;  // empty: ours
  int standard_input = -1;               // become 0, 1 and 2 of the child; all others are closed
  int standard_output = -1;
  int standard_error = -1;
  bool dies_with_us = true;  // SIGKILL when the calling thread ends: start from the thread that lives longest
};

// Starts a program in a session of its own, with default signal handling, without copying our memory (vfork).
// Gives its process id; the failure infrastructure.spawn when it cannot be run.
Result<int> spawn(const SpawnRequest& request);

}  // namespace stoker
