#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <string>

#include "async/cancellation_token.h"
#include "async/function_ref.h"
#include "async/task.h"
#include "async/waiter.h"

namespace stoker {

// The owner of concurrent tasks: whatever is started beside its caller is started in a Scope and joined
// before the Scope dies. The first task that ends with an exception other than Cancelled cancels the others,
// so that a failure comes out instead of waiting for tasks that never end; expected failures are values and
// do not get here.
//
//   Task<> serve(Channel<Request>& requests) {
//     Scope scope(co_await current_executor(), co_await current_cancellation());
//     while (std::optional<Request> request = co_await requests.receive()) {
//       scope.spawn(answer(std::move(*request)), "answer");
//     }
//     co_await scope.join();
//   }
//
// If the body between may throw, use run_scope() below, which joins on every way out. A Scope may also be a
// member of an object that lives on the loop thread; then some task awaits join() before the object dies.
// Destroying a Scope while tasks run ends the process with a sentence that names them. Bounds nothing: see
// Semaphore and collect_all_windowed. Loop thread only.
class Scope {
 public:
  // The tasks' token is requested by cancel() and whenever `parent` is.
  explicit Scope(Executor& executor, const CancellationToken& parent = {});
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Starts `task` on the executor; it first runs after the caller's next suspension. `name` is for reports;
  // the name of the task that made the scope is put before it. (Not that of the one that calls this: where
  // each task of a scope starts the next one, names would grow without end.)
  void spawn(Task<void> task, std::string name = "");

  // Waits until no task runs, then rethrows the first exception other than Cancelled. While it waits, the
  // caller's cancellation is passed on to the tasks; it waits for them all the same and throws Cancelled at
  // the end. The Scope can be used again afterwards: after a failure with a fresh token, after a cancellation
  // for tasks that start cancelled.
  Task<> join();

  // Requests the tasks' token, also for tasks spawned later.
  void cancel(CancelReason reason = CancelReason::kRequested) {
    cancelled_ = true;
    source_->request(reason);
  }

  CancellationToken token() const { return source_->token(); }
  Executor& executor() const { return *executor_; }
  size_t running() const { return running_; }

 private:
  class Child;

  void end(Child& child, const std::exception_ptr& exception) noexcept;
  [[noreturn]] void abort_with_names(FunctionRef<bool(const TaskRecord&)> is_child) const;

  Executor* executor_;
  std::string owner_;  // the name of the task that made it; empty: no task did
  CancellationToken parent_;
  std::optional<CancellationSource> source_;  // always holds one
  bool cancelled_ = false;                    // by cancel() or through join(), not by a failure
  size_t running_ = 0;
  std::exception_ptr failure_;
  WaitQueue joiners_{"Scope.join", {}};
};

// Runs body(scope) and joins the scope on every way out; when the body throws, the tasks are cancelled first
// and the body's exception comes out after they have ended. `body` is a function (or a lambda without
// captures) that returns Task<>; `arguments` are passed on.
//
//   co_await run_scope(&serve_with, &requests);   // Task<> serve_with(Scope& scope, Channel<Request>*
//   requests)
template <typename Body, typename... Arguments>
Task<> run_scope(Body body, Arguments... arguments) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  std::exception_ptr failure;
  try {
    co_await body(scope, std::move(arguments)...);
  } catch (...) {
    failure = std::current_exception();
    scope.cancel();
  }
  try {
    co_await scope.join();
  } catch (...) {
    if (!failure) throw;
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stoker
