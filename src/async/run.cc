#include "async/run.h"

#include "async/root_task.h"

namespace stoker {
namespace {

class RunTask final : public RootTask {
 public:
  using RootTask::RootTask;

  bool done = false;
  using RootTask::exception;

 private:
  void finished() noexcept override { done = true; }
};

}  // namespace

void run_task(Executor& executor, Task<void> task, CancellationToken cancellation, std::string name) {
  RunTask root(executor, std::move(cancellation), std::move(task), std::move(name), running_task_name());
  root.start();
  try {
    executor.run_until(root.done);
  } catch (...) {
    // The task cannot end any more: what it has started is destroyed where it stands.
    executor.tear_down();
    throw;
  }
  if (root.exception()) std::rethrow_exception(root.exception());
}

}  // namespace stoker
