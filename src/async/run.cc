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
  RunTask root(executor, std::move(cancellation), std::move(task), std::move(name));
  root.start();
  executor.run_until(root.done);
  if (root.exception()) std::rethrow_exception(root.exception());
}

}  // namespace stoker
