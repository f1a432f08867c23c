#include "io/spawn.h"

#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace stoker {
namespace {

// Children's standard descriptors are put in place with dup2, so ours must not be among 0, 1 and 2.
Descriptor above_standard(int descriptor) {
  if (descriptor > STDERR_FILENO) return Descriptor(descriptor);
  Descriptor low(descriptor);
  const int high = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (high < 0) throw file_error("open", "a pipe", errno);
  return Descriptor(high);
}

// What the child needs, prepared before it shares our memory: it must neither allocate nor throw.
struct ChildPlan {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const char* folder = nullptr;
  int standard[3] = {-1, -1, -1};
  int report = -1;  // the step that failed and its errno go here; closed by a successful exec
  pid_t parent = 0;
  bool dies_with_us = false;
};

enum Step : int { kSession, kFolder, kProgram };

[[noreturn]] void give_up(const ChildPlan& plan, Step step, int code) {
  const int report[2] = {step, code};
  const ssize_t ignored = ::write(plan.report, report, sizeof report);
  static_cast<void>(ignored);
  ::_exit(127);
}

[[noreturn]] void become(const ChildPlan& plan) {
  ::setsid();
  if (plan.dies_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);  // it ended before we asked
  }
  struct sigaction standard_action = {};
  standard_action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard_action, nullptr);
  for (int i = 0; i < 3; ++i) {
    if (::dup2(plan.standard[i], i) < 0) give_up(plan, kSession, errno);
  }
  if (plan.folder != nullptr && ::chdir(plan.folder) != 0) give_up(plan, kFolder, errno);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(plan.program, plan.arguments, plan.environment);
  give_up(plan, kProgram, errno);
}

// vfork: the child runs on our memory and stack until it has become the program, while this thread waits.
// Signals are blocked meanwhile, so that no handler of ours runs in it.
pid_t start(const ChildPlan& plan) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::vfork();
  if (child == 0) become(plan);
  const int code = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return child;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

Failure spawn_failure(const SpawnRequest& request, int step, int code) {
  const std::string& program = request.command[0];
  std::string message;
  if (step == kFolder) {
    message = fmt::format("The working folder {} of {} cannot be entered: {}.",
                          request.working_folder.string(), program, std::strerror(code));
  } else {
    const char* remedy = "";
    if (code == ENOENT) remedy = "; install it, or give its whole path";
    if (code == EACCES) remedy = "; make it executable";
    if (code == ENOEXEC) remedy = "; a script begins with '#!' and its interpreter";
    if (code == EAGAIN || code == ENOMEM) remedy = "; there are too many processes, or too little memory";
    message = fmt::format("The program {} cannot be started: {}{}.", program, std::strerror(code), remedy);
  }
  return {FailureClass::kInfrastructure, "spawn", message};
}

}  // namespace

DescriptorPair make_pipe(bool we_read) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw file_error("open", "a pipe", errno);
  Descriptor reading = above_standard(ends[0]);
  Descriptor writing = above_standard(ends[1]);
  if (we_read) return {std::move(reading), std::move(writing)};
  return {std::move(writing), std::move(reading)};
}

DescriptorPair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw file_error("open", "a pipe", errno);
  }
  Descriptor ours = above_standard(ends[0]);
  return {std::move(ours), above_standard(ends[1])};
}

Result<int> spawn(const SpawnRequest& request) {
  if (request.command.empty() || request.command[0].empty()) {
    return Failure{FailureClass::kInfrastructure, "spawn", "There is no program to start."};
  }
  DescriptorPair report = make_pipe(true);
  const std::vector<char*> arguments = pointers(request.command);
  const std::vector<char*> environment = pointers(request.environment);
  const std::string folder = request.working_folder.string();
  const ChildPlan plan{.program = arguments[0],
                       .arguments = arguments.data(),
                       .environment = environment.data(),
                       .folder = folder.empty() ? nullptr : folder.c_str(),
                       .standard = {request.standard_input, request.standard_output, request.standard_error},
                       .report = report.theirs.get(),
                       .parent = ::getpid(),
                       .dies_with_us = request.dies_with_us};
  const pid_t child = start(plan);
  if (child < 0) return spawn_failure(request, kSession, errno);
  report.theirs = Descriptor();
  int failed[2] = {};
  ssize_t got;
  do {
    got = ::read(report.ours.get(), failed, sizeof failed);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof failed)) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return spawn_failure(request, failed[0], failed[1]);
}

}  // namespace stoker
