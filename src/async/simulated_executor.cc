#include "async/simulated_executor.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "async/waiter.h"

namespace stoker {
namespace {

constexpr size_t kNamedTasks = 8;  // in the sentence; StuckError::tasks() has them all

std::vector<StuckTask> stuck_tasks(const IntrusiveList<TaskRecord>& tasks) {
  std::vector<StuckTask> stuck;
  tasks.for_each([&](const TaskRecord& record) {
    stuck.push_back({record.name(), record.waiting() == nullptr ? "ready" : describe(*record.waiting())});
  });
  return stuck;
}

}  // namespace

SimulatedExecutor::SimulatedExecutor(uint64_t seed, const SimulationOptions& options)
    : seed_(seed), options_(options), choices_({.run_seed = seed, .purpose = RandomPurpose::kSchedule}) {}

// What unrun work owns may hold timers, and post as it is destroyed.
SimulatedExecutor::~SimulatedExecutor() {
  while (!ready_.empty()) const std::vector<Work> unrun = std::exchange(ready_, {});
}

void SimulatedExecutor::arm(Timer& timer, TimePoint time) {
  timer.executor_ = this;
  timer.due_ = time <= now_;
  if (timer.due_) {
    timer.position_ = static_cast<uint32_t>(due_.size());
    due_.push_back(&timer);
  } else {
    timers_.push(timer, time);
  }
}

void SimulatedExecutor::disarm(Timer& timer) {
  if (timer.due_) {
    remove_due(timer);
  } else {
    timers_.remove(timer);
  }
}

void SimulatedExecutor::remove_due(Timer& timer) {
  due_[timer.position_] = due_.back();
  due_[timer.position_]->position_ = timer.position_;
  due_.pop_back();
}

uint64_t SimulatedExecutor::draw(uint64_t bound) {
  const uint64_t value = choices_.below(bound);
  mix(value);
  return value;
}

void SimulatedExecutor::mix(uint64_t value) {
  digest_ =
      (digest_ ^ (value + static_cast<uint64_t>(now_.time_since_epoch().count()))) * 0x9E3779B97F4A7C15ull;
  digest_ ^= digest_ >> 29;
}

void SimulatedExecutor::collect_due() {
  now_ = timers_.next_time();
  instant_steps_ = 0;
  while (!timers_.empty() && timers_.next_time() <= now_) {
    Timer& timer = timers_.pop();
    timer.due_ = true;
    timer.position_ = static_cast<uint32_t>(due_.size());
    due_.push_back(&timer);
  }
}

bool SimulatedExecutor::step() {
  if (ready_.empty() && due_.empty()) {
    if (timers_.empty()) return false;
    collect_due();
  }
  ++steps_;
  if (steps_ > options_.step_limit || ++instant_steps_ > options_.instant_step_limit) {
    fail(StuckError::Kind::kLivelock);
  }
  const uint64_t count = ready_.size() + due_.size();
  const uint64_t choice = count == 1 ? 0 : choices_.below(count);
  mix(choice);
  if (choice < ready_.size()) {
    std::swap(ready_[choice], ready_.back());
    Work work = std::move(ready_.back());
    ready_.pop_back();
    work();
  } else {
    Timer& timer = *due_[choice - ready_.size()];
    remove_due(timer);
    timer.executor_ = nullptr;
    timer.fire();
  }
  return true;
}

void SimulatedExecutor::run_until(const bool& done) {
  while (!done) {
    if (!step()) fail(StuckError::Kind::kDeadlock);
  }
}

void SimulatedExecutor::run_until_idle() {
  while (step()) {
  }
}

void SimulatedExecutor::forget(std::coroutine_handle<> handle) {
  std::erase_if(ready_, [handle](const Work& work) { return work.resumes(handle); });
}

void SimulatedExecutor::fail(StuckError::Kind kind) {
  std::vector<StuckTask> tasks = stuck_tasks(this->tasks());
  std::string sentence =
      kind == StuckError::Kind::kDeadlock
          ? fmt::format("Deadlock: with seed {} nothing is ready at step {}", seed_, steps_)
          : fmt::format("Livelock: with seed {} work goes on past step {}", seed_, steps_);
  sentence += fmt::format(" ({:.9f} s of virtual time) and {} tasks have not ended: ", to_seconds(now_),
                          tasks.size());
  for (size_t index = 0; index < std::min(tasks.size(), kNamedTasks); ++index) {
    const StuckTask& task = tasks[index];
    sentence += fmt::format("{}task '{}' {}", index > 0 ? "; " : "", task.name,
                            task.awaits == "ready" ? "is ready" : "awaits " + task.awaits);
  }
  sentence += tasks.size() > kNamedTasks ? "; ..." : ".";
  tear_down();
  throw StuckError(kind, sentence, std::move(tasks));
}

}  // namespace stoker
