#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/event.h"
#include "async/executor.h"
#include "async/task.h"
#include "environment/command/command_options.h"
#include "environment/command/worker.h"
#include "io/process.h"

namespace stoker {

class WorkerPool;

// A place in a process: an episode's, or that of one request. Gives it back on destruction. Move-only.
class WorkerLease {
 public:
  WorkerLease() = default;
  WorkerLease(WorkerLease&& other) noexcept = default;
  WorkerLease& operator=(WorkerLease&& other) noexcept;
  ~WorkerLease() { release(); }

  explicit operator bool() const { return worker_ != nullptr; }
  Worker& worker() const { return *worker_; }
  const std::shared_ptr<Worker>& shared_worker() const { return worker_; }
  void release();
  // Likewise, of a place that nothing was asked in: it says nothing about process and owner.
  void release_unused();
  // Lets go of the place, which stays taken until the function that is given is called. It holds nothing; it
  // must be called before the worker dies, or not at all.
  std::function<void()> release_later();

 private:
  friend class WorkerPool;
  WorkerLease(std::shared_ptr<WorkerPool> pool, std::shared_ptr<Worker> worker, std::string owner)
      : pool_(std::move(pool)), worker_(std::move(worker)), owner_(std::move(owner)) {}

  std::shared_ptr<WorkerPool> pool_;
  std::shared_ptr<Worker> worker_;
  std::string owner_;
};

// The processes of one command, supervised: one that ends, hangs or writes garbage is replaced, at first at
// once and then after growing pauses, and costs only what it had open. When more than
// CommandOptions::restarts end in a row, with nothing between that ended well, the pool is given up. Made
// with make_shared. Loop thread only.
//
// An owner (an episode over all its attempts) whose process ended may be what ended it. So it is served apart
// from the others when it comes again, by further processes that are started for that and end when nobody
// needs them: beside at most a square root of the usual company the second time, and alone from the third on.
// So whoever ends its process at every attempt costs any other owner at most two attempts.
//
//   auto pool = std::make_shared<WorkerPool>(options, "environment.command");
//   co_await pool->open();
//   WorkerLease place = co_await pool->lease();
//   Result<Json> answer = co_await place.worker().ask("reset", params);
class WorkerPool final : public WorkerKeeper, public std::enable_shared_from_this<WorkerPool> {
 public:
  using MakeLauncher = std::function<std::unique_ptr<ProcessLauncher>(Executor&)>;

  // `section` is the table of the run file, for sentences. Throws Error(kInput) for options that do not fit.
  WorkerPool(CommandOptions options, std::string section, MakeLauncher make_launcher = {});
  // Asks the processes to end and kills them after some seconds; blocks.
  ~WorkerPool();

  // Starts the processes on the awaiting task's executor, the first one before the others, and waits for
  // their hello. Error(kInput) with the last words when the first process cannot be greeted; one of the
  // others is replaced like any later one. Later calls wait for nothing.
  Task<> open();
  // What the first process said; after open().
  const Greeting& greeting() const { return greeting_; }

  // A place in the process with most room; waits, first come, first served. `owner` names what the place is
  // for over all attempts at it; empty: nothing that comes again. Throws Error(kResource) once the pool is
  // given up.
  Task<WorkerLease> lease(std::string owner = {});
  // One request that needs no episode, to any process; apart if it has lost some already.
  Task<Result<Json>> ask(std::string method, Json params, int lost = 0);

  // For an owner of requests instead of a place: the processes that it has lost since it was forgotten. A
  // place that is given back does all this by itself.
  int lost_by(const std::string& owner) const;
  void add_loss(const std::string& owner) { ++lost_[owner]; }
  void forget(const std::string& owner) { lost_.erase(owner); }

  // Asks each process for what it holds; sentences about episodes and threads, for when no episode is open.
  Task<std::vector<std::string>> check_at_rest();

  // The sentence of the end; empty: not given up.
  const std::string& given_up() const { return given_up_; }
  const std::string& section() const { return section_; }
  int64_t replaced() const { return replaced_; }
  std::string next_episode();            // a name that no other episode of this pool has had
  std::vector<int> process_ids() const;  // of those that run

 private:
  friend class WorkerLease;
  struct Slot {
    std::shared_ptr<Worker> worker;  // null: none yet, or to be started when the timer fires
    std::unique_ptr<Timer> timer;    // the start of a worker, or the end of one that nobody needs
    bool starts = false;             // the timer is that of a start
    bool apart = false;              // serves owners whose process ended, and them alone
    int failures = 0;                // in a row, without having served
    bool first = true;               // its first process has neither been greeted nor ended
  };
  struct Claim {
    int lost = 0;  // processes that its owner has lost
    Event granted{"a place in a process"};
    std::shared_ptr<Worker> worker;
  };
  class Withdraw;

  void worker_ready(Worker& worker) override;
  void worker_stuck(Worker& worker) override;
  void worker_gone(Worker& worker, const std::string& reason) override;

  Slot* slot_of(const Worker& worker);
  void first_is_over(Slot& slot);
  void start(Slot& slot);
  void start_later(Slot& slot);
  void start_apart();
  void end_when_idle(Slot& slot);
  void give_up(const std::string& reason);
  int most_beside(int lost, const Greeting& greeting) const;
  std::shared_ptr<Worker> pick(int lost);
  void serve();
  Task<WorkerLease> lease(std::string owner, int lost);
  void give_back(Worker& worker, const std::string& owner, bool used);
  void bury(std::shared_ptr<Worker> worker);
  [[noreturn]] void refuse() const;

  std::shared_ptr<const CommandOptions> options_;
  std::string section_;
  MakeLauncher make_launcher_;
  Executor* executor_ = nullptr;  // set by open()
  std::unique_ptr<ProcessLauncher> launcher_;
  std::vector<Slot> slots_;
  std::list<std::shared_ptr<Worker>> draining_;  // replaced; end with their last episode
  std::list<Claim*> claims_;
  std::list<Claim*> claims_apart_;   // of owners whose process ended
  std::map<std::string, int> lost_;  // processes by owner, of owners that have not ended well since
  Event started_{"the first hello of all processes"};  // or their ends
  std::string open_failure_;
  bool opened_ = false;
  Greeting greeting_;
  int64_t replaced_ = 0;
  int64_t replaced_in_a_row_ = 0;  // nothing ended well since
  uint64_t episodes_ = 0;
  std::string given_up_;
};

}  // namespace stoker
