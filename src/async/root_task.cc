#include "async/root_task.h"

namespace stoker {
namespace {

std::string full_name(std::string name) {
  const TaskRecord* parent = running_task();
  if (name.empty()) name = "task";
  if (parent == nullptr || parent->name().empty()) return name;
  std::string full;
  full.reserve(parent->name().size() + 1 + name.size());
  full.append(parent->name()).append("/").append(name);
  return full;
}

}  // namespace

RootTask::RootTask(Executor& executor, CancellationToken cancellation, Task<void> task, std::string name)
    : TaskRecord(full_name(std::move(name))),
      context_{&executor, this, std::move(cancellation)},
      task_(std::move(task)) {
  if (!task_) detail::throw_moved_from();
  task_.handle_.promise().attach(context_);
  executor.tasks().push_back(*this);
}

RootTask::~RootTask() {
  // Before its first run the coroutine has no waiter that would take back the posted resumption.
  if (executor().tearing_down()) executor().forget(task_.handle_);
}

void RootTask::run() { Continuation{task_.handle_, this}.resume(); }

void RootTask::start() { executor().post(Continuation{task_.handle_, this}); }

}  // namespace stoker
