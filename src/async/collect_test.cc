#include "async/collect.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "async/cancellation.h"
#include "async/sleep.h"
#include "async/testing.h"
#include "async/timeout.h"

namespace stoker {
namespace {

using namespace std::chrono_literals;

struct Gauge {
  int running = 0;
  int most = 0;
  int started = 0;
};

Task<std::unique_ptr<int>> square(Gauge* gauge, int value, Duration time) {
  ++gauge->started;
  gauge->most = std::max(gauge->most, ++gauge->running);
  co_await sleep_for(time);
  --gauge->running;
  co_return std::make_unique<int>(value * value);
}
std::vector<Task<std::unique_ptr<int>>> squares(Gauge* gauge, int count) {
  std::vector<Task<std::unique_ptr<int>>> tasks;
  for (int value = 0; value < count; ++value)
    tasks.push_back(square(gauge, value, Duration((count - value) * 1000)));
  return tasks;
}

CO_TEST(CollectAll, GivesValuesInTheOrderOfTheTasks) {
  Gauge gauge;
  const auto values = co_await collect_all(squares(&gauge, 10));
  CO_ASSERT_TRUE(values.size() == 10);
  for (int value = 0; value < 10; ++value) EXPECT_EQ(*values[value], value * value);
  EXPECT_EQ(gauge.most, 10);
  EXPECT_TRUE((co_await collect_all(std::vector<Task<int>>())).empty());
}

CO_TEST(CollectAll, WindowBoundsWhatRunsAtOnce) {
  Gauge gauge;
  const auto values = co_await collect_all_windowed(squares(&gauge, 20), 3);
  CO_ASSERT_TRUE(values.size() == 20);
  for (int value = 0; value < 20; ++value) EXPECT_EQ(*values[value], value * value);
  EXPECT_EQ(gauge.most, 3);
}

Task<> add_one(int* sum) {
  co_await yield_now();
  ++*sum;
}

CO_TEST(CollectAll, RunsTasksWithoutValues) {
  int sum = 0;
  std::vector<Task<>> tasks;
  for (int task = 0; task < 5; ++task) tasks.push_back(add_one(&sum));
  co_await collect_all(std::move(tasks));
  EXPECT_EQ(sum, 5);
}

Task<int> fail_or_wait(Gauge* gauge, bool fail) {
  ++gauge->started;
  co_await sleep_for(fail ? Duration(1ms) : Duration(1h));
  throw std::runtime_error("broken");
}

CO_TEST(CollectAll, FirstFailureCancelsTheOthers) {
  Gauge gauge;
  std::vector<Task<int>> tasks;
  for (int task = 0; task < 6; ++task) tasks.push_back(fail_or_wait(&gauge, task == 1));
  EXPECT_THROW(co_await collect_all_windowed(std::move(tasks), 2), std::runtime_error);
  EXPECT_EQ(gauge.started, 2);  // the others were not worth starting
}

CO_TEST(CollectAll, CancellationReachesEveryTask) {
  Gauge gauge;
  std::vector<Task<int>> tasks;
  for (int task = 0; task < 4; ++task) tasks.push_back(fail_or_wait(&gauge, false));
  EXPECT_EQ(co_await with_timeout(1ms, collect_all(std::move(tasks))), std::nullopt);
  EXPECT_EQ(gauge.started, 4);
}

CO_TEST(CollectAll, ATaskCancelledFromElsewhereMakesTheWholeCancelled) {
  CancellationSource source;
  source.request();
  Gauge gauge;
  std::vector<Task<int>> tasks;
  tasks.push_back(with_cancellation(source.token(), fail_or_wait(&gauge, false)));
  EXPECT_THROW(co_await collect_all(std::move(tasks)), Cancelled);
}

Task<int> cancelled_for(CancelReason reason) {
  co_await yield_now();
  throw Cancelled(reason);
}

CO_TEST(CollectAll, KeepsTheReasonOfATaskThatWasCancelledFromElsewhere) {
  std::vector<Task<int>> tasks;
  tasks.push_back(cancelled_for(CancelReason::kDeadline));
  CancelReason reason{};
  try {
    co_await collect_all(std::move(tasks));
  } catch (const Cancelled& cancelled) {
    reason = cancelled.reason();
  }
  EXPECT_EQ(reason, CancelReason::kDeadline);
}

}  // namespace
}  // namespace stoker
