#include "io/process_family.h"

#include <csignal>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {  // glibc 2.36 forgets it
#include <sys/pidfd.h>
}

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"
#include "io/spawn.h"

namespace stoker {
namespace {

// $1: what the markers of the family start with. Reading ends when Stoker has ended, whatever way; then what
// carries the marker is killed until nothing has for a second: one look misses who is just becoming another
// program, for its environment is empty then. Signals to Stoker's terminal must not end it before.
constexpr const char* kWatchdogScript = R"(
trap '' HUP INT QUIT TERM
while read -r line; do :; done
looks=0 quiet=0
while [ $quiet -lt 10 ] && [ $looks -lt 100 ]; do
  looks=$((looks + 1)) quiet=$((quiet + 1))
  for file in $(grep -l -s -z -F "$1" /proc/[0-9]*/environ); do
    quiet=0 process=${file#/proc/}
    kill -9 "${process%/environ}" 2>/dev/null
  done
  sleep 0.1
done
)";

// The first bytes of a file of a process, at most 2 MB; nothing when it may not be opened.
std::optional<std::string> read_of(const char* process, const char* name) {
  constexpr size_t kLimit = size_t{1} << 21;
  const Descriptor file(::open(fmt::format("/proc/{}/{}", process, name).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  std::string text;
  char buffer[16384];
  while (text.size() < kLimit) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

// Of /proc/PID/stat, proc(5).
struct ProcessState {
  uint64_t start_time = 0;  // field 22, since the machine started
  uint64_t memory = 0;      // field 23; 0: has ended, or is a thread of the kernel
  // Fields 50 and 51, the place of the environment.
  uint64_t environment_begin = 0;
  uint64_t environment_end = 0;
};

// All 0 for a process that is gone.
ProcessState state_of(const char* process) {
  const std::string stat = read_of(process, "stat").value_or("");
  ProcessState state;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return state;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string value;
  for (int field = 3; fields >> value; ++field) {
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (field == 22) state.start_time = number;
    if (field == 23) state.memory = number;
    if (field == 50) state.environment_begin = number;
    if (field == 51) state.environment_end = number;
  }
  return state;
}

// A process's environment; empty when it has none, may not be read, or was there before Stoker. While execve
// runs the old environment reads empty already, the place of the next one is first not known and then of no
// size: so one without an environment must look so several times, and one without a place is waited for, at
// most 50 ms.
std::string environment_of(const char* process) {
  constexpr int kLooks = 250, kEmptyLooks = 5;
  int empty_looks = 0;
  for (int i = 0; i < kLooks && empty_looks < kEmptyLooks; ++i) {
    std::optional<std::string> text = read_of(process, "environ");
    if (!text) return "";
    if (!text->empty()) return std::move(*text);
    const ProcessState state = state_of(process);
    if (state.memory == 0 || state.start_time < state_of("self").start_time) return "";
    if (state.environment_end != 0 && state.environment_begin == state.environment_end) ++empty_looks;
    ::usleep(200);
  }
  return "";
}

// `variable`: "NAME=marker", followed by the end of the variable unless the marker ends with '.'.
bool carries(const char* process, const std::string& variable) {
  std::string text = '\0' + environment_of(process) + '\0';
  std::string wanted = '\0' + variable;
  if (!variable.ends_with('.')) wanted += '\0';
  return text.find(wanted) != std::string::npos;
}

// The process is looked at again once it is held by its pidfd: its number may have been given to another.
bool kill_if_marked(const char* process, const std::string& variable) {
  if (!carries(process, variable)) return false;
  const Descriptor handle(::pidfd_open(std::atoi(process), 0));
  if (handle.get() < 0 || !carries(process, variable)) return false;
  return ::pidfd_send_signal(handle.get(), SIGKILL, nullptr, 0) == 0;
}

int kill_once(const std::string& variable) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (!folder) return 0;
  int killed = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') killed += kill_if_marked(entry->d_name, variable);
  }
  return killed;
}

// Unlike any other family's: process numbers and start times may repeat across containers.
std::string fresh_prefix() {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}.", ::getpid(), device(), device());
}

}  // namespace

int kill_marked(std::string_view marker) {
  const std::string variable = fmt::format("{}={}", kMarkerVariable, marker);
  int killed = 0;
  // What was started while /proc was read is found the next time.
  for (int round = 0; round < 5; ++round) {
    const int more = kill_once(variable);
    killed += more;
    if (more == 0) break;
  }
  return killed;
}

ProcessFamily::ProcessFamily() : prefix_(fresh_prefix()) {
  DescriptorPair lifeline = make_pipe(false);
  const Descriptor nowhere = open_file("/dev/null", O_WRONLY, "open");
  const Result<int> watchdog = spawn({.command = {"/bin/sh", "-c", kWatchdogScript, "stoker-watchdog",
                                                  fmt::format("{}={}", kMarkerVariable, prefix_)},
                                      .environment = {"PATH=/usr/local/bin:/usr/bin:/bin"},
                                      .standard_input = lifeline.theirs.get(),
                                      .standard_output = nowhere.get(),
                                      .standard_error = nowhere.get(),
                                      .dies_with_us = false});
  if (!watchdog) throw resource_error(watchdog.failure().message);
  watchdog_ = *watchdog;
  lifeline_ = std::move(lifeline.ours);
}

ProcessFamily::~ProcessFamily() {
  if (members_ > 0) kill_marked(prefix_);
  ::kill(watchdog_, SIGKILL);
  while (::waitpid(watchdog_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string ProcessFamily::next_marker() { return fmt::format("{}{}", prefix_, members_++); }

}  // namespace stoker
