#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace stoker {

struct EnvCheckArguments {
  RunFileArguments run;
  int episodes = 8;
};

struct EnvServeArguments {
  std::string name;                      // of an environment kind
  std::vector<std::string> assignments;  // key=value of its options
};

// `stoker env check RUN.toml`: starts what the run file names, plays a few episodes with a random policy,
// twice with the same seeds, and prints what it saw and what would break in training, each with the remedy.
// Needs no model. 0: nothing is wrong.
int run_env_check(const EnvCheckArguments& arguments, InterruptWatch& interrupts);

// `stoker env serve NAME`: a native environment over docs/protocol.md on standard input and output, until the
// input ends.
int run_env_serve(const EnvServeArguments& arguments);

}  // namespace stoker
