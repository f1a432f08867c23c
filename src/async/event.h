#pragma once

#include <string>

#include "async/task.h"
#include "async/waiter.h"

namespace stoker {

// A flag that tasks wait for; stays set until reset (manual reset). Holds no value and counts nothing: for
// values use Channel, for counts Semaphore.
//
//   Event ready("weights ready");
//   Task<> follower(Event& ready) { co_await ready.wait(); use_weights(); }
//   ready.set();   // wakes all that wait; later waits do not suspend
//
// Must outlive its waiters. Loop thread only.
class Event {
 public:
  explicit Event(std::string name = "") : name_(std::move(name)) {}

  bool is_set() const { return set_; }
  void set();
  void reset() { set_ = false; }

  // Waits until the flag is set. A task woken by set() goes on even if reset() comes before it runs.
  Task<> wait();

 private:
  class Awaiter;

  std::string name_;
  bool set_ = false;
  WaitQueue waiters_{"Event.wait", name_};
};

}  // namespace stoker
