#pragma once

#include <memory>

#include "io/process.h"

namespace stoker {

// Processes of the machine. Each runs in a session of its own, is killed when Stoker ends in whatever way,
// and takes with it what it has started (io/process_family.h). Its standard error goes line by line to the
// log, tagged with its name; a flood there is thinned out.
//
//   std::unique_ptr<ProcessLauncher> launcher = make_system_launcher(executor);
//   Result<std::unique_ptr<Process>> process = launcher->start({.command = {"cat"}, .name = "cat"},
//   listener);
//
// `executor` must be a RealExecutor and outlive the launcher; the launcher's processes must be destroyed
// before it. Throws Error(kResource) when the machine refuses the family's watchdog.
std::unique_ptr<ProcessLauncher> make_system_launcher(Executor& executor);

}  // namespace stoker
