#include "io/system_process.h"

#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {  // glibc 2.36 forgets it
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.h"
#include "io/descriptor_watch.h"
#include "io/error_stream.h"
#include "io/line_splitter.h"
#include "io/process_family.h"
#include "io/spawn.h"

extern char** environ;

namespace stoker {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;            // taken from one output in one turn of the loop
constexpr size_t kLeftBytes = size_t{16} << 20;            // at most, of what it had written before
constexpr Duration kMuteLimit = std::chrono::seconds(1);   // between its closed output and its end
constexpr Duration kDeathLimit = std::chrono::seconds(5);  // between SIGKILL and the end

void set_nonblocking(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=') + 1); }

// Ours, then `added`, then the marker; the last of a name wins.
std::vector<std::string> child_environment(const std::vector<std::string>& added, const std::string& marker) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) result.emplace_back(*variable);
  auto put = [&result](const std::string& variable) {
    std::erase_if(result, [&](const std::string& known) { return known.starts_with(name_of(variable)); });
    result.push_back(variable);
  };
  for (const std::string& variable : added) put(variable);
  put(fmt::format("{}={}", kMarkerVariable, marker));
  return result;
}

// The parent's ends of a child's standard descriptors.
struct Streams {
  Descriptor input;
  Descriptor output;
  Descriptor error;
};

class SystemProcess final : public Process {
 public:
  SystemProcess(Executor& executor, std::shared_ptr<ProcessFamily> family, const ProcessOptions& options,
                ProcessListener& listener, std::string marker, int process, Streams streams);
  ~SystemProcess() override;

  void send(std::string_view line) override;
  size_t unsent_bytes() const override { return unsent_.size() - sent_; }
  void close_input() override;
  void terminate() override {
    if (!reaped_) ::kill(-process_, SIGTERM);
  }
  void kill(std::string_view problem) override;
  void read_now() override {
    if (output_watch_) read_output(kLeftBytes);
  }
  bool wait_blocking(Duration limit) override;
  int id() const override { return process_; }

 private:
  enum class Output { kOpen, kDrained, kClosed };

  void post_flush();
  void flush();
  void close_input_now();
  void watch_output();
  void watch_error();
  Output read_output(size_t limit);
  Output read_error(size_t limit);
  void exited();
  void reap();
  void kill_all();

  Executor& executor_;
  std::shared_ptr<ProcessFamily> family_;
  const size_t max_unsent_bytes_;
  const size_t max_line_bytes_;
  ProcessListener& listener_;
  const std::string marker_;
  const int process_;
  Streams streams_;
  Descriptor handle_;  // pidfd
  LineSplitter lines_;
  ErrorStream errors_;
  std::string unsent_;
  size_t sent_ = 0;  // of unsent_
  bool flush_posted_ = false;
  bool above_limit_ = false;
  bool closing_input_ = false;
  bool reaped_ = false;
  ProcessEnd end_;
  // Posted work asks it whether this still lives.
  std::shared_ptr<SystemProcess*> self_ = std::make_shared<SystemProcess*>(this);
  std::unique_ptr<Timer> mute_;
  std::optional<DescriptorWatch> input_watch_;
  std::optional<DescriptorWatch> output_watch_;
  std::optional<DescriptorWatch> error_watch_;
  std::optional<DescriptorWatch> exit_watch_;
};

SystemProcess::SystemProcess(Executor& executor, std::shared_ptr<ProcessFamily> family,
                             const ProcessOptions& options, ProcessListener& listener, std::string marker,
                             int process, Streams streams)
    : executor_(executor),
      family_(std::move(family)),
      max_unsent_bytes_(options.max_unsent_bytes),
      max_line_bytes_(options.max_line_bytes),
      listener_(listener),
      marker_(std::move(marker)),
      process_(process),
      streams_(std::move(streams)),
      handle_(::pidfd_open(process, 0)),
      lines_(options.max_line_bytes),
      errors_(options.name) {
  set_nonblocking(streams_.input.get());
  set_nonblocking(streams_.output.get());
  set_nonblocking(streams_.error.get());
  try {
    if (handle_.get() < 0) throw file_error("watch", fmt::format("process {}", process), errno);
    input_watch_.emplace(executor, streams_.input.get());
    output_watch_.emplace(executor, streams_.output.get());
    error_watch_.emplace(executor, streams_.error.get());
    exit_watch_.emplace(executor, handle_.get());
  } catch (...) {
    kill_all();
    reap();
    throw;
  }
  watch_output();
  watch_error();
  exit_watch_->when_readable([this] { exited(); });
}

SystemProcess::~SystemProcess() {
  *self_ = nullptr;
  if (reaped_) return;
  kill_all();
  wait_blocking(kDeathLimit);
}

void SystemProcess::send(std::string_view line) {
  if (reaped_ || closing_input_ || streams_.input.get() < 0) return;
  unsent_.append(line);
  unsent_.push_back('\n');
  above_limit_ = above_limit_ || unsent_bytes() > max_unsent_bytes_;
  post_flush();
}

// At the end of the loop's turn, so that what one turn sends goes out in one write.
void SystemProcess::post_flush() {
  if (std::exchange(flush_posted_, true)) return;
  executor_.post([self = self_] {
    if (SystemProcess* process = *self) {
      process->flush_posted_ = false;
      process->flush();
    }
  });
}

void SystemProcess::flush() {
  if (streams_.input.get() < 0) return;
  while (sent_ < unsent_.size()) {
    const ssize_t sent =
        ::send(streams_.input.get(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      input_watch_->when_writable([this] { flush(); });
      break;
    }
    if (sent < 0) {
      close_input_now();  // it closed its standard input; what is left cannot be delivered
      break;
    }
    sent_ += static_cast<size_t>(sent);
  }
  if (sent_ == unsent_.size() || sent_ > (size_t{1} << 20)) {
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
  if (unsent_.empty() && closing_input_) close_input_now();
  if (above_limit_ && unsent_bytes() <= max_unsent_bytes_) {
    above_limit_ = false;
    listener_.on_writable();
  }
}

void SystemProcess::close_input() {
  if (std::exchange(closing_input_, true)) return;
  flush();
}

void SystemProcess::close_input_now() {
  input_watch_.reset();
  streams_.input = Descriptor();
  unsent_.clear();
  sent_ = 0;
}

void SystemProcess::watch_output() {
  output_watch_->when_readable([this] {
    switch (read_output(kReadBytes)) {
      case Output::kOpen:
      case Output::kDrained:
        return watch_output();
      case Output::kClosed:
        output_watch_.reset();
        mute_ = executor_.post_at(executor_.now() + kMuteLimit, [this] {
          if (end_.problem.empty()) kill("it closed its standard output");
        });
    }
  });
}

void SystemProcess::watch_error() {
  error_watch_->when_readable([this] {
    if (read_error(kReadBytes) == Output::kClosed) {
      error_watch_.reset();
    } else {
      watch_error();
    }
  });
}

SystemProcess::Output SystemProcess::read_output(size_t limit) {
  char buffer[16384];
  while (limit > 0) {
    const ssize_t got = ::read(streams_.output.get(), buffer, std::min(limit, sizeof buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Output::kDrained;
    if (got <= 0) return Output::kClosed;
    limit -= static_cast<size_t>(got);
    // A process that is being killed for what it wrote is not heard any more.
    if (!end_.problem.empty()) continue;
    const bool fits = lines_.feed({buffer, static_cast<size_t>(got)}, [this](std::string_view line) {
      if (end_.problem.empty()) listener_.on_line(line);
    });
    if (!fits && end_.problem.empty()) {
      kill(fmt::format("it wrote a line of more than {} bytes to standard output", max_line_bytes_));
    }
    if (static_cast<size_t>(got) < sizeof buffer) return Output::kDrained;
  }
  return Output::kOpen;
}

SystemProcess::Output SystemProcess::read_error(size_t limit) {
  char buffer[16384];
  while (limit > 0) {
    const ssize_t got = ::read(streams_.error.get(), buffer, std::min(limit, sizeof buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Output::kDrained;
    if (got <= 0) return Output::kClosed;
    limit -= static_cast<size_t>(got);
    errors_.feed({buffer, static_cast<size_t>(got)}, executor_.now());
  }
  return Output::kOpen;
}

void SystemProcess::kill(std::string_view problem) {
  if (reaped_) return;
  if (end_.problem.empty()) end_.problem = problem;
  ::kill(-process_, SIGKILL);
}

// Its group first: as long as it is not reaped, nobody else has its number.
void SystemProcess::kill_all() {
  ::kill(-process_, SIGKILL);
  kill_marked(marker_);
}

void SystemProcess::reap() {
  siginfo_t info = {};
  while (::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  if (info.si_code == CLD_EXITED) {
    end_.exit_status = info.si_status;
  } else {
    end_.signal = info.si_status;
  }
}

void SystemProcess::exited() {
  kill_all();
  reap();
  if (output_watch_) read_output(kLeftBytes);
  if (error_watch_) read_error(kLeftBytes);
  errors_.finish(executor_.now());
  end_.last_words = errors_.last_words();
  input_watch_.reset();
  output_watch_.reset();
  error_watch_.reset();
  exit_watch_.reset();
  mute_.reset();
  streams_ = Streams();
  const ProcessEnd end = end_;
  listener_.on_end(end);
}

bool SystemProcess::wait_blocking(Duration limit) {
  if (reaped_) return true;
  const auto milliseconds =
      std::max<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(), 0);
  pollfd exit = {.fd = handle_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&exit, 1, static_cast<int>(std::min<int64_t>(milliseconds, 1'000'000))) <= 0) return false;
  kill_all();
  reap();
  if (error_watch_) read_error(kReadBytes);
  errors_.finish(executor_.now());
  exit_watch_.reset();
  mute_.reset();
  return true;
}

class SystemLauncher final : public ProcessLauncher {
 public:
  explicit SystemLauncher(Executor& executor) : executor_(executor) {}

  Result<std::unique_ptr<Process>> start(const ProcessOptions& options, ProcessListener& listener) override {
    DescriptorPair input = make_socket_pair();
    DescriptorPair output = make_pipe(true);
    DescriptorPair error = make_pipe(true);
    std::string marker = family_->next_marker();
    const Result<int> process = spawn({.command = options.command,
                                       .environment = child_environment(options.environment, marker),
                                       .working_folder = options.working_folder,
                                       .standard_input = input.theirs.get(),
                                       .standard_output = output.theirs.get(),
                                       .standard_error = error.theirs.get()});
    if (!process) return process.failure();
    return Result<std::unique_ptr<Process>>(std::make_unique<SystemProcess>(
        executor_, family_, options, listener, std::move(marker), *process,
        Streams{std::move(input.ours), std::move(output.ours), std::move(error.ours)}));
  }

 private:
  Executor& executor_;
  std::shared_ptr<ProcessFamily> family_ = std::make_shared<ProcessFamily>();
};

}  // namespace

std::unique_ptr<ProcessLauncher> make_system_launcher(Executor& executor) {
  return std::make_unique<SystemLauncher>(executor);
}

}  // namespace stoker
