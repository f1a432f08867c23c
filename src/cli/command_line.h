#pragma once

namespace stoker {

// The program: reads the command line, runs its verb and returns the exit status. What fails is told in one
// sentence on standard error; a standard output that nobody reads any more ends a verb quietly.
int run_command_line(int argument_count, char** argument_values);

}  // namespace stoker
