#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/executor.h"
#include "base/result.h"

namespace stoker {

// Child processes that talk in lines: the waist between who uses them and the machine. The real ones are in
// io/system_process.h, scripted ones for simulation in io/testing/scripted_process.h. Loop thread only.

struct ProcessOptions {
  // Program and arguments. A program without '/' is looked for in PATH; a relative one counts from
  // working_folder.
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value": added to Stoker's own, which the last one overrides
  std::filesystem::path working_folder;  // empty: Stoker's own
  std::string name;                      // in the log: "[environment 3] ..."
  size_t max_line_bytes = size_t{16} << 20;  // a longer line on standard output ends the process
  // Listener::on_writable is called when, after more than this was unsent, no more than this is.
  size_t max_unsent_bytes = size_t{4} << 20;
};

// How a process ended.
struct ProcessEnd {
  int exit_status = 0;  // 0..255; meaningless when signal > 0
  int signal = 0;       // the number of the signal that ended it, 0: it exited
  std::string problem;  // why Stoker ended it, as a clause: "it wrote a line of more than 16 bytes"; or empty
  std::string last_words;  // the last lines of its standard error, at most some kilobytes

  // "it exited with status 3; its last words: ...".
  std::string describe() const;
};

// Who hears of a process. The calls come from the loop, never from inside a call of the Process other than
// read_now; they must not destroy the Process, but may call it.
class ProcessListener {
 public:
  // A line of standard output, without its end.
  virtual void on_line(std::string_view line) = 0;
  // There is room again; see ProcessOptions::max_unsent_bytes.
  virtual void on_writable() = 0;
  // The process is gone, reaped, and its output has been given; the last call.
  virtual void on_end(const ProcessEnd& end) = 0;

 protected:
  ~ProcessListener() = default;
};

// A running process and all that it starts: owner of both.
class Process {
 public:
  Process() = default;
  // Kills the process and what it started, and reaps it.
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Queues a line for standard input ('\n' is added). What cannot be delivered is dropped: the end is told
  // by on_end.
  virtual void send(std::string_view line) = 0;
  virtual size_t unsent_bytes() const = 0;

  // Closes standard input once all is sent: a request to end.
  virtual void close_input() = 0;
  // SIGTERM to its process group.
  virtual void terminate() = 0;
  // SIGKILL to the process and whatever it started. `problem` as in ProcessEnd.
  virtual void kill(std::string_view problem) = 0;

  // Gives the listener at once what lies in the pipe: for who is about to judge a silence while the loop may
  // have been busy.
  virtual void read_now() = 0;

  // Blocks for at most `limit` until the process has ended, without calling the listener: for the end of a
  // run, when no loop runs. True: it has ended.
  virtual bool wait_blocking(Duration limit) = 0;

  virtual int id() const = 0;  // of the machine's process; for people
};

class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  // Starts a process. The listener must outlive it. A Failure infrastructure.spawn names the program and the
  // remedy.
  virtual Result<std::unique_ptr<Process>> start(const ProcessOptions& options,
                                                 ProcessListener& listener) = 0;
};

}  // namespace stoker
