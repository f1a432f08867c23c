#include "io/system_process.h"

#include <csignal>

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>

#include "async/event.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/sleep.h"
#include "async/timeout.h"
#include "base/testing/test_folder.h"
#include "io/process_family.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Duration kLong = std::chrono::seconds(60);

class Recorder final : public ProcessListener {
 public:
  void on_line(std::string_view line) override {
    lines.emplace_back(line);
    changed.set();
  }
  void on_writable() override {
    writable = true;
    changed.set();
  }
  void on_end(const ProcessEnd& process_end) override {
    end = process_end;
    changed.set();
  }

  std::vector<std::string> lines;
  bool writable = false;
  std::optional<ProcessEnd> end;
  Event changed{"changed"};
};

Task<> wait_until(Recorder* recorder, const std::function<bool()>* condition) {
  while (!(*condition)()) {
    co_await recorder->changed.wait();
    recorder->changed.reset();
  }
}

class SystemProcessTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start(std::vector<std::string> command, ProcessOptions options = {}) {
    options.command = std::move(command);
    options.name = "child";
    Result<std::unique_ptr<Process>> process = launcher_->start(options, recorder_);
    if (!process) throw internal_error(process.failure().message);
    return *std::move(process);
  }
  std::unique_ptr<Process> shell(const std::string& script, ProcessOptions options = {}) {
    return start({"/bin/sh", "-c", script}, std::move(options));
  }
  void wait_for(const std::function<bool()>& condition) {
    ASSERT_TRUE(run(executor_, with_timeout(kLong, wait_until(&recorder_, &condition))));
  }
  void wait_for_end() {
    wait_for([this] { return recorder_.end.has_value(); });
  }

  TestFolder folder_;
  RealExecutor executor_;
  std::unique_ptr<ProcessLauncher> launcher_ = make_system_launcher(executor_);
  Recorder recorder_;
};

int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += !entry.path().empty();
  return count;
}

// Whether the process has ended (a zombie has) within some seconds.
bool ends(int process) {
  RealExecutor executor;
  for (int i = 0; i < 2000; ++i) {
    std::string state;
    if (FILE* file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r")) {
      char line[512] = {};
      if (std::fgets(line, sizeof line, file) != nullptr) state = line;
      std::fclose(file);
    }
    if (state.empty() || state.find(") Z ") != std::string::npos) return true;
    run(executor, sleep_for(std::chrono::milliseconds(10)));
  }
  return false;
}

TEST_F(SystemProcessTest, LinesGoInAndOutAndTheEndIsTold) {
  auto process = start({"cat"});
  process->send("{\"id\":1}");
  process->send("two");
  wait_for([this] { return recorder_.lines.size() == 2; });
  EXPECT_THAT(recorder_.lines, ElementsAre("{\"id\":1}", "two"));
  process->close_input();
  wait_for_end();
  EXPECT_EQ(recorder_.end->describe(), "it exited with status 0");
  process->send("too late");
  process->kill("too late");
}

TEST_F(SystemProcessTest, WhatItSaidBeforeItsEndIsHeard) {
  auto process = shell("echo one; echo 'lost: key' >&2; echo two; exit 3");
  wait_for_end();
  EXPECT_THAT(recorder_.lines, ElementsAre("one", "two"));
  EXPECT_EQ(recorder_.end->exit_status, 3);
  EXPECT_EQ(recorder_.end->describe(), "it exited with status 3; its last words: lost: key");
}

TEST_F(SystemProcessTest, HasTheEnvironmentAndTheFolderItWasGiven) {
  folder_.write("here.txt", "found\n");
  ::setenv("STOKER_TEST_INHERITED", "ours", 1);
  auto process = shell("cat here.txt; echo $A $STOKER_TEST_INHERITED; echo ${#STOKER_PROCESS} >&2",
                       {.environment = {"A=first", "A=last"}, .working_folder = folder_.path()});
  wait_for_end();
  EXPECT_THAT(recorder_.lines, ElementsAre("found", "last ours"));
}

TEST_F(SystemProcessTest, DefaultSignalsAndNoneBlocked) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto process = shell("echo up; exec sleep 1000");
  wait_for([this] { return !recorder_.lines.empty(); });
  process->terminate();
  wait_for_end();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(recorder_.end->describe(), "it was ended by signal 15 SIGTERM");
}

TEST_F(SystemProcessTest, WhatCannotBeStartedIsNamed) {
  auto message = [this](ProcessOptions options) {
    Result<std::unique_ptr<Process>> process = launcher_->start(options, recorder_);
    return process ? "" : process.failure().name() + ": " + process.failure().message;
  };
  const int before = open_descriptors();
  EXPECT_EQ(message({.command = {"stoker-no-such-program"}}),
            "infrastructure.spawn: The program stoker-no-such-program cannot be started: No such file or "
            "directory; install it, or give its whole path.");
  EXPECT_THAT(message({.command = {folder_.write("plain.txt", "x")}}), HasSubstr("make it executable"));
  EXPECT_THAT(message({.command = {"cat"}, .working_folder = folder_ / "none"}),
              HasSubstr("none of cat cannot be entered"));
  EXPECT_THAT(message({}), HasSubstr("no program"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(SystemProcessTest, ALineAboveTheLimitEndsIt) {
  auto process =
      shell("echo short; head -c 100000 /dev/zero | tr '\\0' x; exec sleep 1000", {.max_line_bytes = 1000});
  wait_for_end();
  EXPECT_THAT(recorder_.lines, ElementsAre("short"));
  EXPECT_EQ(recorder_.end->describe(),
            "it wrote a line of more than 1000 bytes to standard output, so that it was ended");
}

TEST_F(SystemProcessTest, ClosedStandardOutputEndsIt) {
  auto process = shell("exec >&-; exec sleep 1000");
  wait_for_end();
  EXPECT_EQ(recorder_.end->problem, "it closed its standard output");
}

TEST_F(SystemProcessTest, ClosedStandardInputIsNoEndOfStoker) {
  auto process = shell("exec <&-; echo closed; exec sleep 1000");
  wait_for([this] { return !recorder_.lines.empty(); });
  process->send(std::string(1 << 20, 'x'));
  while (process->unsent_bytes() > 0) run(executor_, sleep_for(std::chrono::milliseconds(1)));
  EXPECT_FALSE(recorder_.end.has_value());
  process->kill("enough");
  wait_for_end();
  EXPECT_EQ(recorder_.end->signal, SIGKILL);
}

TEST_F(SystemProcessTest, AFullPipeHoldsBackAndTellsWhenThereIsRoom) {
  auto process = shell("while [ ! -e go ]; do sleep 0.01; done; exec wc -c",
                       {.working_folder = folder_.path(), .max_unsent_bytes = size_t{1} << 20});
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 4; ++i) process->send(line);
  run(executor_, sleep_for(std::chrono::milliseconds(1)));
  EXPECT_GT(process->unsent_bytes(), size_t{2} << 20);
  EXPECT_FALSE(recorder_.writable);
  folder_.write("go", "");
  wait_for([this] { return recorder_.writable; });
  process->close_input();
  wait_for_end();
  EXPECT_THAT(recorder_.lines, ElementsAre("4194308"));
}

TEST_F(SystemProcessTest, KillingTakesWhatItStartedAlong) {
  auto process = shell("setsid sleep 1000 & echo $!; sleep 1000 & echo $!; wait");
  wait_for([this] { return recorder_.lines.size() == 2; });
  process->kill("enough");
  wait_for_end();
  for (const std::string& line : recorder_.lines) EXPECT_TRUE(ends(std::stoi(line)));
}

// While a process becomes another program, nothing tells whose it is.
TEST_F(SystemProcessTest, KillingTakesAlongWhatIsJustBecomingAnotherProgram) {
  folder_.write("again.sh", "exec sh \"$0\"\n");
  for (int round = 0; round < 30; ++round) {
    recorder_.lines.clear();
    recorder_.end.reset();
    auto process = shell("setsid sh again.sh & echo $!; wait", {.working_folder = folder_.path()});
    wait_for([this] { return recorder_.lines.size() == 1; });
    process->kill("enough");
    wait_for_end();
    EXPECT_TRUE(ends(std::stoi(recorder_.lines[0])));
  }
}

TEST_F(SystemProcessTest, TheEndOfAProcessTakesWhatItStartedAlong) {
  auto process = shell("setsid sleep 1000 & echo $!");
  wait_for_end();
  EXPECT_TRUE(ends(std::stoi(recorder_.lines.at(0))));
}

TEST_F(SystemProcessTest, DestructionLeavesNothingBehind) {
  const int before = open_descriptors();
  std::vector<int> processes;
  for (int i = 0; i < 20; ++i) {
    auto process = shell("trap '' TERM; while :; do sleep 1000; done");
    processes.push_back(process->id());
  }
  EXPECT_EQ(open_descriptors(), before);
  for (int process : processes) {
    EXPECT_EQ(::waitpid(process, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }
}

TEST_F(SystemProcessTest, WaitsForAnOrderlyEndWithoutALoop) {
  auto process = shell("cat >/dev/null; echo bye >&2");
  EXPECT_FALSE(process->wait_blocking(std::chrono::milliseconds(1)));
  process->close_input();
  EXPECT_TRUE(process->wait_blocking(kLong));
  EXPECT_TRUE(process->wait_blocking(kLong));
}

// The fork plays Stoker: it starts a process with a grandchild in another session, and is killed.
TEST_F(SystemProcessTest, NothingOutlivesStokerThatIsKilled) {
  int ends_of_pipe[2];
  ASSERT_EQ(::pipe(ends_of_pipe), 0);
  const pid_t stoker = ::fork();
  if (stoker == 0) {
    RealExecutor executor;
    auto launcher = make_system_launcher(executor);
    Recorder recorder;
    ProcessOptions options{.command = {"/bin/sh", "-c", "setsid sleep 1000 & echo $!; echo $$; wait"}};
    auto process = *launcher->start(options, recorder);
    const std::function<bool()> said = [&] { return recorder.lines.size() == 2; };
    run(executor, wait_until(&recorder, &said));
    const int numbers[2] = {std::stoi(recorder.lines[0]), std::stoi(recorder.lines[1])};
    if (::write(ends_of_pipe[1], numbers, sizeof numbers) < 0) ::_exit(1);
    ::raise(SIGKILL);
  }
  int numbers[2] = {};
  ASSERT_EQ(::read(ends_of_pipe[0], numbers, sizeof numbers), static_cast<ssize_t>(sizeof numbers));
  ::waitpid(stoker, nullptr, 0);
  EXPECT_TRUE(ends(numbers[0]));
  EXPECT_TRUE(ends(numbers[1]));
  ::close(ends_of_pipe[0]);
  ::close(ends_of_pipe[1]);
}

TEST_F(SystemProcessTest, TheWatchdogEndsWithItsFamily) {
  int watchdog = 0;
  {
    ProcessFamily family;
    watchdog = family.watchdog();
    EXPECT_NE(family.next_marker(), family.next_marker());
  }
  EXPECT_EQ(::kill(watchdog, 0), -1);
}

}  // namespace
}  // namespace stoker
