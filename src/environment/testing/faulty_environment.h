#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "async/event.h"
#include "async/executor.h"
#include "environment/registry.h"

namespace stoker::testing {

// What goes wrong at one point of an episode.
enum class Fault {
  kNone,
  kThrow,         // throws std::runtime_error
  kThrowForeign,  // throws what is no std::exception
  kFail,          // returns a Failure of its class with reason "planted"; close, which cannot, throws
  kHang,          // waits for ever, but heeds cancellation
  kHangHard,      // waits until FaultyCounts::release is set, whatever is cancelled
  kSleep,         // sleeps FaultPlan::delay, then does its work
  kBlock,  // holds a thread of the blocking pool until FaultyCounts::thread_release; real executor only
};

// What goes wrong in one episode.
struct FaultPlan {
  Fault reset = Fault::kNone;
  Fault step = Fault::kNone;
  Fault tool = Fault::kNone;
  Fault close = Fault::kNone;
  Fault reward = Fault::kNone;
  int32_t step_turn = 0;  // of the first turn whose step goes wrong, counted by steps from 0
  int32_t turns = 2;      // the step after this many turns says done
  Duration delay = std::chrono::seconds(1);
};

// The plan of an episode: of its task and of how many episodes of that task were reset before; for the
// reward, of the record's attempt.
using FaultSchedule = std::function<FaultPlan(const TaskRow& task, int32_t nth)>;

// What threads wait for until somebody sets it. Any thread.
class ThreadRelease {
 public:
  void wait();
  void set();
  // Threads that wait.
  int waiting() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
  int waiting_ = 0;
};

// What happened to the environments of one kind. Loop thread only.
struct FaultyCounts {
  int64_t made = 0;
  int64_t destroyed = 0;
  int64_t resets = 0;
  int64_t steps = 0;
  int64_t tool_calls = 0;
  int64_t scores = 0;
  int64_t closes = 0;                     // calls of close, also those that threw or hung
  int64_t closed_again = 0;               // calls of close after the first: a broken contract
  int64_t used_closed = 0;                // reset or step after close: a broken contract
  int64_t lost_unclosed = 0;              // destroyed without close: a broken contract
  Event release{"FaultyCounts.release"};  // lets all kHangHard go on
  // Lets the threads of all kBlock go on, those abandoned too.
  std::shared_ptr<ThreadRelease> thread_release = std::make_shared<ThreadRelease>();
};

// An environment kind whose episodes go wrong by schedule, for tests of what runs episodes. Tasks are named
// "faulty/ORDINAL" and never end. reset asks "Task ORDINAL?"; each step answers "Turn N." until the last. One
// tool, "probe", with no arguments, says "probed". The reward "planted" is 1 and a success. The counts
// outlive everything made here.
class FaultyEnvironmentKind final : public EnvironmentKind {
 public:
  explicit FaultyEnvironmentKind(FaultSchedule schedule);
  ~FaultyEnvironmentKind() override;

  std::unique_ptr<Environment> make(Pool& blocking) const override;
  std::unique_ptr<TaskSource> training_tasks(uint64_t seed) const override;
  std::unique_ptr<TaskSource> evaluation_tasks() const override;
  std::vector<std::unique_ptr<Reward>> rewards() const override;

  FaultyCounts& counts() const;

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace stoker::testing
