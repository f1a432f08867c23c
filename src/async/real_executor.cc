#include "async/real_executor.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/timer_queue.h"

namespace stoker {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int kBatch = 64;  // pieces of work between two looks at timers and I/O

}  // namespace

struct RealExecutor::Loop {
  const SteadyClock::time_point origin = SteadyClock::now();
  std::atomic<std::thread::id> thread = std::this_thread::get_id();
  std::deque<Work> ready;
  TimerQueue timers;

  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> keep_running{
      context.get_executor()};
  boost::asio::steady_timer alarm{context};
  std::optional<TimePoint> alarm_time;

  std::mutex arrivals_mutex;
  std::vector<Work> arrivals;  // posted by other threads; guarded by the mutex
  std::atomic<bool> has_arrivals = false;

  TimePoint now() const { return TimePoint(SteadyClock::now() - origin); }

  void take_arrivals() {
    if (!has_arrivals.load(std::memory_order_acquire)) return;
    std::vector<Work> taken;
    {
      std::lock_guard lock(arrivals_mutex);
      taken.swap(arrivals);
      has_arrivals.store(false, std::memory_order_relaxed);
    }
    for (Work& work : taken) ready.push_back(std::move(work));
  }

  // Blocks until a timer is due, another thread posts or a handler of the context has run.
  void wait() {
    if (!timers.empty() && (!alarm_time || timers.next_time() < *alarm_time)) {
      const TimePoint time = timers.next_time();
      alarm.expires_at(origin + time.time_since_epoch());
      alarm_time = time;
      alarm.async_wait([this, time](const boost::system::error_code&) {
        if (alarm_time == time) alarm_time.reset();
      });
    }
    context.run_one();
  }
};

RealExecutor::RealExecutor() : loop_(std::make_unique<Loop>()) {}
// What unrun work owns may hold timers and descriptors of the loop, and post as it is destroyed.
RealExecutor::~RealExecutor() {
  for (loop_->take_arrivals(); !loop_->ready.empty(); loop_->take_arrivals()) {
    const std::deque<Work> unrun = std::exchange(loop_->ready, {});
  }
}

boost::asio::io_context& RealExecutor::io_context() { return loop_->context; }

TimePoint RealExecutor::now() const { return loop_->now(); }

void RealExecutor::post(Work work) {
  Loop& loop = *loop_;
  if (loop.thread.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    loop.ready.push_back(std::move(work));
    return;
  }
  std::lock_guard lock(loop.arrivals_mutex);  // held to the end: the loop may end once it has seen the work
  loop.arrivals.push_back(std::move(work));
  if (!loop.has_arrivals.exchange(true, std::memory_order_release)) boost::asio::post(loop.context, [] {});
}

void RealExecutor::arm(Timer& timer, TimePoint time) {
  timer.executor_ = this;
  loop_->timers.push(timer, time);
}

void RealExecutor::disarm(Timer& timer) { loop_->timers.remove(timer); }

void RealExecutor::forget(std::coroutine_handle<> handle) {
  std::erase_if(loop_->ready, [handle](const Work& work) { return work.resumes(handle); });
}

template <typename Stop>
void RealExecutor::run_loop(const Stop& stop) {
  Loop& loop = *loop_;
  loop.thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (!stop()) {
    loop.take_arrivals();
    if (!loop.timers.empty()) {
      const TimePoint now = loop.now();
      while (!loop.timers.empty() && loop.timers.next_time() <= now) {
        Timer& timer = loop.timers.pop();
        timer.executor_ = nullptr;
        timer.fire();
      }
    }
    if (loop.ready.empty()) {
      if (!stop()) loop.wait();
      continue;
    }
    for (int count = 0; count < kBatch && !loop.ready.empty(); ++count) {
      Work work = std::move(loop.ready.front());
      loop.ready.pop_front();
      work();
      if (stop()) return;
    }
    if (!loop.ready.empty()) loop.context.poll();
  }
}

void RealExecutor::run_until(const bool& done) {
  run_loop([&done] { return done; });
}

void RealExecutor::run_until_idle() {
  run_loop([this] { return tasks().empty() && loop_->ready.empty() && loop_->timers.empty(); });
}

}  // namespace stoker
