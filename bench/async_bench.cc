// Prices of the asynchronous core: time of the basic operations, memory of waiting tasks, and how surely the
// search over schedules finds planted defects.
//
//   async_bench [--json FILE]

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "async/channel.h"
#include "async/compute_pool.h"
#include "async/event.h"
#include "async/planted_bugs.h"
#include "async/real_executor.h"
#include "async/run.h"
#include "async/schedule_search.h"
#include "async/scope.h"
#include "async/simulated_executor.h"
#include "async/timeout.h"
#include "base/error.h"
#include "base/figure_report.h"
#include "support.h"

namespace {

// Bytes that this thread holds, as the allocator in use rounds them up.
constinit thread_local int64_t bytes_in_use = 0;

void* counted(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  bytes_in_use += static_cast<int64_t>(malloc_usable_size(block));
  return block;
}

void release(void* block) {
  bytes_in_use -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return counted(
      std::aligned_alloc(static_cast<size_t>(alignment),
                         (size + static_cast<size_t>(alignment) - 1) & -static_cast<size_t>(alignment)));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { release(block); }

namespace stoker {
namespace {

using namespace std::chrono_literals;

// Nanoseconds an operation: the least of five runs of `body`, which does `operations`.
template <typename Body>
double least_nanoseconds(int64_t operations, Body body) {
  double least = 1e300;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    least = std::min(least, spent.count() / static_cast<double>(operations));
  }
  return least;
}

Task<int> ready_task(int value) { co_return value; }

Task<int64_t> await_ready_tasks(int64_t count) {
  int64_t sum = 0;
  for (int64_t index = 0; index < count; ++index) sum += co_await ready_task(static_cast<int>(index));
  co_return sum;
}

Task<> send_numbers(Channel<int>* channel, int count) {
  for (int index = 0; index < count; ++index) co_await channel->send(index);
  channel->close();
}

Task<int64_t> pass_through_channel(int count) {
  Channel<int> channel(16);
  Scope scope(co_await current_executor(), co_await current_cancellation());
  scope.spawn(send_numbers(&channel, count));
  int64_t sum = 0;
  while (std::optional<int> value = co_await channel.receive()) sum += *value;
  co_await scope.join();
  co_return sum;
}

Task<> yield_often(int count) {
  for (int index = 0; index < count; ++index) co_await yield_now();
}

Task<> spawn_and_join(int count) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (int index = 0; index < count; ++index) scope.spawn(yield_often(0));
  co_await scope.join();
}

Task<> sleep_beside(int count) {
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (int index = 0; index < count; ++index) scope.spawn(sleep_for(Duration(index % 1000)));
  co_await scope.join();
}

void measure_times(FigureReport& report) {
  RealExecutor executor;
  constexpr int64_t kAwaits = 2'000'000;
  report.add("await_ready_task",
             least_nanoseconds(kAwaits, [&] { run(executor, await_ready_tasks(kAwaits)); }), "ns");
  constexpr int kItems = 500'000;
  report.add("channel_item", least_nanoseconds(kItems, [&] { run(executor, pass_through_channel(kItems)); }),
             "ns");
  report.add("yield", least_nanoseconds(kItems, [&] { run(executor, yield_often(kItems)); }), "ns");
  constexpr int kTasks = 100'000;
  report.add("spawn_and_join", least_nanoseconds(kTasks, [&] { run(executor, spawn_and_join(kTasks)); }),
             "ns");
  report.add("sleeping_task", least_nanoseconds(kTasks, [&] { run(executor, sleep_beside(kTasks)); }), "ns");
  ThreadTeam team(2);
  constexpr int kLoops = 100'000;
  report.add("parallel_for_2_threads",
             least_nanoseconds(kLoops,
                               [&] {
                                 for (int loop = 0; loop < kLoops; ++loop) team.for_each(2, [](int) {});
                               }),
             "ns");
}

Task<> wait_with_limit(Event* event) { co_await with_timeout(1h, event->wait()); }

Task<double> waiting_bytes(int count) {
  Event event("never");
  std::vector<Task<>> tasks;
  tasks.reserve(count);
  const int64_t before = bytes_in_use;
  for (int index = 0; index < count; ++index) tasks.push_back(wait_with_limit(&event));
  const int64_t frames = bytes_in_use - before;
  Scope scope(co_await current_executor(), co_await current_cancellation());
  for (Task<>& task : tasks) scope.spawn(std::move(task), "episode");
  co_await sleep_for(1ms);
  const int64_t waiting = bytes_in_use - before - frames;
  event.set();
  co_await scope.join();
  co_return static_cast<double>(waiting) / count;
}

void measure_memory(FigureReport& report) {
  RealExecutor executor;
  report.add("waiting_task_bytes_beside_frame", run(executor, waiting_bytes(100'000)), "bytes");
}

// Of 100 seeds, those with which the search finds the defect within 10,000 schedules and runs it again by its
// seed.
void measure_search(FigureReport& report, const std::string& name, Task<void> (*program)()) {
  int found = 0;
  std::vector<int> schedules;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto finding = search_schedules(seed, 10'000, program);
    if (!finding || finding->stuck.empty()) continue;
    const auto again = try_schedule(finding->schedule_seed, program);
    if (!again || again->digest != finding->digest || again->stuck != finding->stuck) continue;
    ++found;
    schedules.push_back(finding->schedule + 1);
  }
  std::sort(schedules.begin(), schedules.end());
  report.add(name + "_found_of_100_seeds", found, "seeds");
  if (schedules.empty()) return;
  report.add(name + "_schedules_median", schedules[schedules.size() / 2], "schedules");
  report.add(name + "_schedules_largest", schedules.back(), "schedules");
}

void measure(FigureReport& report) {
  measure_times(report);
  measure_memory(report);
  measure_search(report, "lost_wakeup", &lost_wakeup_program);
  measure_search(report, "deadlock", &deadlock_program);
}

}  // namespace
}  // namespace stoker

int main(int argument_count, char** arguments) {
  return stoker::bench_main(argument_count, arguments, "async_bench", stoker::measure);
}
