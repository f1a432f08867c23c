#include "async/executor.h"

#include <utility>

namespace stoker {
namespace {

thread_local TaskRecord* running_task_record = nullptr;

class WorkTimer final : public Timer {
 public:
  explicit WorkTimer(Work work) : work_(std::move(work)) {}

 private:
  void fire() override {
    Work work = std::move(work_);  // the work may destroy this timer
    work();
  }

  Work work_;
};

}  // namespace

TaskRecord* running_task() { return running_task_record; }

void Continuation::resume() const {
  TaskRecord* outer = std::exchange(running_task_record, record);
  handle.resume();
  running_task_record = outer;
}

void Timer::disarm() {
  if (executor_ == nullptr) return;
  executor_->disarm(*this);
  executor_ = nullptr;
}

Executor::~Executor() = default;

std::unique_ptr<Timer> Executor::post_at(TimePoint time, Work work) {
  auto timer = std::make_unique<WorkTimer>(std::move(work));
  arm(*timer, time);
  return timer;
}

}  // namespace stoker
