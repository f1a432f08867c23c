#pragma once

#include <functional>
#include <memory>

#include "async/executor.h"

namespace stoker {

// Tells on the loop when a pipe, socket or pidfd can be read or written. Does not own the descriptor, which
// must stay open while this lives. Loop thread only.
//
//   DescriptorWatch watch(executor, descriptor);
//   watch.when_readable([&] { read_what_is_there(); });   // once; ask again for the next time
class DescriptorWatch {
 public:
  // Needs a RealExecutor: another throws Error(kInternal), and a descriptor that cannot be waited for throws
  // Error(kResource). Must be destroyed before the executor.
  DescriptorWatch(Executor& executor, int descriptor);
  // What was asked for is not called any more.
  ~DescriptorWatch();
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;

  // Calls `function` once when reading would not block (an end of file or an error counts); at most one of
  // each kind at a time, and a repeated call replaces the function. It must not throw; it may destroy this.
  void when_readable(std::function<void()> function);
  void when_writable(std::function<void()> function);

 private:
  struct Wait;
  struct Waits;
  struct State;
  void ask(Wait& wait, std::function<void()> function);
  void arm(Wait& wait);

  std::unique_ptr<State> state_;
};

}  // namespace stoker
