#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "async/task.h"

namespace stoker {

// The name of the task that runs; empty: none does.
std::string_view running_task_name();

// A started task: owner of the outermost coroutine, its context and its record. The base of what Scope and
// run() start; not for users.
class RootTask : public TaskRecord {
 public:
  // Lists the task with the executor; start() sets it going. `owner`: the name that is put before its own.
  RootTask(Executor& executor, CancellationToken cancellation, Task<void> task, std::string name,
           std::string_view owner);
  ~RootTask() override;

  // Posts the first resumption.
  void start();
  // Instead: runs the task up to its first suspension inside this call. It may have ended then.
  void run();

 protected:
  // What the ended task threw; null when nothing.
  const std::exception_ptr& exception() const { return task_.handle_.promise().exception(); }
  Executor& executor() const { return *context_.executor; }

 private:
  TaskContext context_;
  Task<void> task_;
};

}  // namespace stoker
