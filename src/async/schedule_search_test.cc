#include "async/schedule_search.h"

#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

#include "async/planted_bugs.h"
#include "async/sleep.h"

namespace stoker {
namespace {

bool is_stuck(const ScheduleFinding& finding, const StuckTask& task) {
  return std::find(finding.stuck.begin(), finding.stuck.end(), task) != finding.stuck.end();
}

// Ten seeds of the hundred that bench/async_bench.cc measures.
TEST(ScheduleSearch, FindsAndReplaysAPlantedLostWakeup) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto finding = search_schedules(seed, 10'000, lost_wakeup_program);
    ASSERT_TRUE(finding) << "seed " << seed;
    // The writer and the bystanders have ended.
    EXPECT_EQ(finding->stuck,
              (std::vector<StuckTask>{{"main", "Scope.join"}, {"main/reader", "Event.wait 'mail arrived'"}}))
        << finding->message;
    auto again = try_schedule(finding->schedule_seed, lost_wakeup_program);
    ASSERT_TRUE(again);
    again->schedule = finding->schedule;
    EXPECT_EQ(*again, *finding);
  }
}

TEST(ScheduleSearch, FindsAndReplaysAPlantedDeadlock) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto finding = search_schedules(seed, 10'000, deadlock_program);
    ASSERT_TRUE(finding) << "seed " << seed;
    EXPECT_TRUE(is_stuck(*finding, {"main/philosopher 0", "Semaphore.acquire 'fork 1'"})) << finding->message;
    auto again = try_schedule(finding->schedule_seed, deadlock_program);
    ASSERT_TRUE(again);
    again->schedule = finding->schedule;
    EXPECT_EQ(*again, *finding);
  }
}

Task<> end_well() { co_await yield_now(); }
Task<> throw_always() {
  co_await yield_now();
  throw std::runtime_error("broken");
}

TEST(ScheduleSearch, FindsNothingInAProgramThatEndsWell) {
  EXPECT_FALSE(search_schedules(1, 1000, end_well));
}

TEST(ScheduleSearch, ExceptionsAreFindingsToo) {
  const auto finding = search_schedules(1, 10, throw_always);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->message, "broken");
  EXPECT_EQ(finding->schedule, 0);
  EXPECT_TRUE(finding->stuck.empty());
}

}  // namespace
}  // namespace stoker
