#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/executor.h"
#include "io/process.h"

namespace stoker::testing {

class ScriptedProcess;

// What a scripted process does; made for each start, lives as long as its process.
class ProcessScript {
 public:
  virtual ~ProcessScript() = default;
  virtual void started(ScriptedProcess&) {}
  virtual void line(ScriptedProcess& process, std::string_view text) = 0;
  virtual void input_closed(ScriptedProcess& process);  // by default: exits with 0
};

// A process that is a piece of C++ on the executor, real or simulated: every call of script or listener is
// posted, with a drawn delay in simulation.
class ScriptedProcess {
 public:
  virtual ~ScriptedProcess() = default;
  virtual void say(std::string line) = 0;  // on standard output
  virtual void end(ProcessEnd end) = 0;
  virtual void after(Duration delay, std::function<void()> function) = 0;  // while it runs
  virtual int number() const = 0;                                          // of starts before it
};

// Starts scripted processes; `make(n)` gives the script of the n-th start, null: it cannot be started.
// Executor and launcher must outlive the processes.
class ScriptedLauncher final : public ProcessLauncher {
 public:
  using Make = std::function<std::unique_ptr<ProcessScript>(int start)>;

  ScriptedLauncher(Executor& executor, Make make) : executor_(executor), make_(std::move(make)) {}

  Result<std::unique_ptr<Process>> start(const ProcessOptions& options, ProcessListener& listener) override;

  int starts() const { return starts_; }
  int running() const { return *running_; }  // not ended

 private:
  Executor& executor_;
  Make make_;
  int starts_ = 0;
  std::shared_ptr<int> running_ = std::make_shared<int>(0);
};

}  // namespace stoker::testing
