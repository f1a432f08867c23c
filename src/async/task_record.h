#pragma once

#include <string>
#include <string_view>

#include "async/intrusive_list.h"

namespace stoker {

// What a suspended task waits for: "Channel.receive" and the name its owner gave to the channel. Lives in the
// primitive, at least as long as the wait.
struct WaitSite {
  const char* operation;
  std::string_view name;
};

// One started task as the executor knows it: the root of a chain of awaited Tasks. Listed with its executor
// from start to end, for the report of stuck tasks.
class TaskRecord : public ListHook<TaskRecord> {
 public:
  explicit TaskRecord(std::string name) : name_(std::move(name)) {}

  // The names of the tasks that it runs under, outermost first, joined with '/', then its own.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Null: the task is running or ready.
  const WaitSite* waiting() const { return waiting_; }
  void set_waiting(const WaitSite* site) { waiting_ = site; }

  // Called once, at the final suspension of the task's coroutine; may destroy this and the coroutine's frame.
  virtual void finished() noexcept = 0;

 protected:
  virtual ~TaskRecord() = default;

 private:
  std::string name_;
  const WaitSite* waiting_ = nullptr;
};

}  // namespace stoker
