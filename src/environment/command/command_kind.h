#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "environment/command/command_options.h"
#include "environment/command/worker_pool.h"
#include "environment/dataset/dataset_file.h"
#include "environment/registry.h"

namespace stoker {

// Options of the environment "command": `environment.command`.
struct CommandEnvironmentOptions {
  CommandOptions process;
  std::string environment;
  DatasetFiles files;
  int64_t evaluation_tasks = 256;

  template <typename V>
  void for_each_field(V& visit) {
    process.for_each_field(visit);
    visit("environment", environment,
          "Which of the environments that the command lists; may be empty for one.");
    files.for_each_field(visit);
    visit("evaluation_tasks", evaluation_tasks,
          "Without files, tasks are numbers: so many are held out, from 0; training goes on behind them.",
          at_least(1));
  }
};

// An environment in processes that speak docs/protocol.md. Its rewards: its own score, when it has one, then
// those over whole conversations that the command lists. Rows of the data files are given to it as they are;
// without files a task's fields are {"index": N}, and the environment makes what it likes of it and of the
// seed.
std::unique_ptr<EnvironmentKind> make_command(const CommandEnvironmentOptions& options);
// The same over other processes: for tests.
std::unique_ptr<EnvironmentKind> make_command_kind(const CommandEnvironmentOptions& options,
                                                   WorkerPool::MakeLauncher make_launcher);

}  // namespace stoker
