#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "async/event.h"
#include "async/executor.h"
#include "async/task.h"
#include "environment/command/command_options.h"
#include "environment/command/protocol.h"
#include "io/process.h"

namespace stoker {

class Worker;

// Who keeps workers. Called on the loop, from within the worker: it must not be destroyed there.
class WorkerKeeper {
 public:
  virtual void worker_ready(Worker& worker) = 0;  // hello was answered; may be asked now
  // So many requests hold a thread for nothing that it should be replaced. Told once.
  virtual void worker_stuck(Worker& worker) = 0;
  virtual void worker_gone(Worker& worker, const std::string& reason) = 0;  // the last call

 protected:
  ~WorkerKeeper() = default;
};

// One process that speaks the protocol: greeting, requests and their answers, heartbeat. When it ends, every
// open request fails with infrastructure.process_ended and its last words. Loop thread only; who waits for an
// answer keeps it alive.
class Worker final : public ProcessListener {
 public:
  // Starts nothing yet. `executor` must outlive the worker, `keeper` the process or close_input().
  Worker(Executor& executor, std::shared_ptr<const CommandOptions> options, WorkerKeeper& keeper,
         std::string name)
      : executor_(executor),
        shared_options_(std::move(options)),
        options_(*shared_options_),
        keeper_(&keeper),
        name_(std::move(name)) {}
  ~Worker();

  // Starts the process and greets it. What cannot be started is told by worker_gone, later.
  void start(ProcessLauncher& launcher);

  // Asks and waits for the answer; the error of an answer is its failure. When the caller is cancelled, the
  // process is told; unless `uncancellable`: then `settled`, if given, is called once the answer has come or
  // the process has ended, however long after the caller has left.
  Task<Result<Json>> ask(std::string method, Json params);
  Task<Result<Json>> ask_uncancellable(std::string method, Json params, std::function<void()> settled);

  bool ready() const { return ready_ && !gone_; }
  bool gone() const { return gone_; }
  const Greeting& greeting() const { return greeting_; }  // once ready
  const std::string& name() const { return name_; }
  // It has answered something besides hello.
  bool has_served() const { return served_; }
  // Somebody gave up waiting for an answer of it.
  bool has_unanswered() const { return unanswered_; }
  int process_id() const { return process_ ? process_->id() : 0; }

  // Asks the process to end, and kills it when it has not after a grace.
  void finish();
  void kill(std::string_view problem);
  // For the end of the run, without a loop: see Process. The keeper is not called any more.
  void close_input();
  bool wait_blocking(Duration limit);

  // The keeper's: places taken, and the most of them while those who have them have them.
  int load = 0;
  int most_load = 0;

 private:
  using Settle = std::function<void(Result<Json>)>;

  void on_line(std::string_view line) override;
  void on_writable() override { writable_.set(); }
  void on_end(const ProcessEnd& end) override;

  Result<int64_t> send(std::string_view method, Json params, Settle settle);
  void take(ProtocolAnswer answer);
  void stray(std::string_view line, const std::string& problem);
  void greeted(Result<Json> answer);
  void schedule_heartbeat();
  void ping();
  void ping_overdue();
  void hello_overdue();
  void log(const ProtocolLog& log);
  void gone(const std::string& reason);
  Failure ended() const;

  Executor& executor_;
  std::shared_ptr<const CommandOptions> shared_options_;
  const CommandOptions& options_;
  WorkerKeeper* keeper_;  // null: it does not want to hear any more
  std::string name_;
  std::unique_ptr<Process> process_;
  std::map<int64_t, Settle> open_;  // requests by id
  int64_t last_id_ = 0;
  Event writable_{"room in the pipe"};
  Greeting greeting_;
  std::unique_ptr<Timer> timer_;  // start-up, then heartbeat, then the end
  bool ready_ = false;
  bool finishing_ = false;
  bool gone_ = false;
  bool served_ = false;
  bool unanswered_ = false;
  bool told_stuck_ = false;
  bool ping_open_ = false;
  TimePoint log_second_{};  // when the current second of log lines began
  int log_lines_ = 0;       // in it
  int stray_run_ = 0;       // in a row
  int64_t stray_told_ = 0;  // written to the log
  std::string end_reason_;
};

}  // namespace stoker
