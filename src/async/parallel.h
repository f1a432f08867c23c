#pragma once

#include <memory>

#include "async/function_ref.h"

namespace stoker {

// A loop over independent indices on a fixed number of threads; what kernels are given. Index i always goes
// to the thread that the static partition [count*t/threads, count*(t+1)/threads) names; as long as the body
// of one index does not depend on another's, the result is the same for every number of threads.
//
//   void scale(Parallel& parallel, float* values, int rows, int columns, float factor) {
//     parallel.for_each(rows, [&](int row) {
//       for (int c = 0; c < columns; ++c) values[row * columns + c] *= factor;
//     });
//   }
class Parallel {
 public:
  virtual ~Parallel() = default;

  virtual int threads() const = 0;

  // Calls body(0) ... body(count - 1) and returns when all have returned. When bodies throw, the exception of
  // the lowest thread comes out, after the others have ended; indices behind a throwing one on its thread are
  // skipped. One loop at a time: called from one thread. A loop inside a body runs on that body's thread
  // alone.
  virtual void for_each(int count, FunctionRef<void(int)> body) = 0;
};

// Everything on the calling thread: for tests, simulation and small work.
class SerialParallel final : public Parallel {
 public:
  int threads() const override { return 1; }
  void for_each(int count, FunctionRef<void(int)> body) override;
};

// The calling thread and `threads` - 1 workers. Between loops workers spin for about the time that waking
// takes, then sleep, so that a chain of short kernels costs no system calls and an idle team costs nothing.
class ThreadTeam final : public Parallel {
 public:
  // `threads` at least 1; more than the machine has is allowed and slow.
  explicit ThreadTeam(int threads);
  ~ThreadTeam() override;

  int threads() const override;
  void for_each(int count, FunctionRef<void(int)> body) override;

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

}  // namespace stoker
