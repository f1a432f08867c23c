#include <unistd.h>

#include <cstdio>

#include "cli/command_line.h"

int main(int argument_count, char** argument_values) {
  // Room for all figures of a run, so that they also reach their --json file when the reader of standard
  // output has gone: only a full buffer is an error in the middle of a verb.
  static char output_buffer[1 << 18];
  if (isatty(STDOUT_FILENO) == 0) std::setvbuf(stdout, output_buffer, _IOFBF, sizeof(output_buffer));
  return stoker::run_command_line(argument_count, argument_values);
}
