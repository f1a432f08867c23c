#include "cli/standard_output.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/error.h"

namespace stoker {

bool output_has_failed() { return std::ferror(stdout) != 0 || !std::cout; }

bool output_is_closed() {
  pollfd state{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return output_has_failed() && ::poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

int finish_output(int status) {
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0;
  if (written && !output_has_failed()) return status;
  if (!output_is_closed()) throw resource_error(kOutputFailure);
  return status == 0 ? kExitOutputClosed : status;
}

}  // namespace stoker
