#include "io/process.h"

#include <csignal>
#include <cstring>

#include <fmt/core.h>

namespace stoker {

std::string ProcessEnd::describe() const {
  std::string text = problem;
  if (!text.empty()) text += ", so that it was ended";
  if (text.empty()) {
    if (signal > 0) {
      const char* name = ::sigabbrev_np(signal);
      text = fmt::format("it was ended by signal {}{}{}", signal, name ? " SIG" : "", name ? name : "");
    } else {
      text = fmt::format("it exited with status {}", exit_status);
    }
  }
  if (!last_words.empty()) text += fmt::format("; its last words: {}", last_words);
  return text;
}

}  // namespace stoker
