#include "async/root_task.h"

namespace stoker {
namespace {

std::string full_name(std::string_view owner, std::string name) {
  if (name.empty()) name = "task";
  if (owner.empty()) return name;
  std::string full;
  full.reserve(owner.size() + 1 + name.size());
  full.append(owner).append("/").append(name);
  return full;
}

}  // namespace

std::string_view running_task_name() {
  const TaskRecord* running = running_task();
  return running == nullptr ? std::string_view() : running->name();
}

RootTask::RootTask(Executor& executor, CancellationToken cancellation, Task<void> task, std::string name,
                   std::string_view owner)
    : TaskRecord(full_name(owner, std::move(name))),
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
