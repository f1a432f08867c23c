#include "async/parallel.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace stoker {
namespace {

// Pauses before sleeping: 30 to 130 microseconds. It must be longer than a sleeping thread takes to wake,
// some 50 in a virtual machine: else one thread that is late once puts its partners to sleep, whose waking
// makes them late for it, at every loop from then on.
constexpr int kSpins = 2000;

thread_local bool inside_body = false;

// Returns once `value` differs from `old`.
void await_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

void SerialParallel::for_each(int count, FunctionRef<void(int)> body) {
  for (int index = 0; index < count; ++index) body(index);
}

class ThreadTeam::Workers {
 public:
  explicit Workers(int threads) : failures_(threads) {
    for (int thread = 1; thread < threads; ++thread) {
      threads_.emplace_back([this, thread] { work(thread); });
    }
  }

  ~Workers() {
    body_ = nullptr;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int count() const { return static_cast<int>(failures_.size()); }

  void run(int count, FunctionRef<void(int)> body) {
    body_ = &body;
    count_ = count;
    running_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    run_part(0);
    while (const uint32_t running = running_.load(std::memory_order_acquire)) await_change(running_, running);
    if (failed_.load(std::memory_order_relaxed)) rethrow_first();
  }

 private:
  void work(int thread) {
    for (uint32_t round = 0;;) {
      await_change(round_, round);
      ++round;
      if (body_ == nullptr) return;
      run_part(thread);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
  }

  void run_part(int thread) {
    const int64_t threads = count();
    const int begin = static_cast<int>(int64_t{count_} * thread / threads);
    const int end = static_cast<int>(int64_t{count_} * (thread + 1) / threads);
    inside_body = true;
    try {
      for (int index = begin; index < end; ++index) (*body_)(index);
    } catch (...) {
      failures_[thread] = std::current_exception();
      failed_.store(true, std::memory_order_relaxed);
    }
    inside_body = false;
  }

  void rethrow_first() {
    failed_.store(false, std::memory_order_relaxed);
    std::exception_ptr first;
    for (std::exception_ptr& failure : failures_) {
      if (failure && !first) first = failure;
      failure = nullptr;
    }
    std::rethrow_exception(first);
  }

  const FunctionRef<void(int)>* body_ = nullptr;  // null: end
  int count_ = 0;
  std::vector<std::exception_ptr> failures_;  // one a thread
  std::atomic<bool> failed_ = false;
  alignas(64) std::atomic<uint32_t> round_ = 0;    // one up for each loop
  alignas(64) std::atomic<uint32_t> running_ = 0;  // workers still in the loop
  std::vector<std::thread> threads_;
};

ThreadTeam::ThreadTeam(int threads) : workers_(std::make_unique<Workers>(std::max(threads, 1))) {}
ThreadTeam::~ThreadTeam() = default;

int ThreadTeam::threads() const { return workers_->count(); }

void ThreadTeam::for_each(int count, FunctionRef<void(int)> body) {
  if (workers_->count() == 1 || count <= 1 || inside_body) {
    SerialParallel().for_each(count, body);
  } else {
    workers_->run(count, body);
  }
}

}  // namespace stoker
