#pragma once

#include <functional>

#include <gtest/gtest.h>

#include "async/real_executor.h"
#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/task.h"

// Tests that are coroutines.
//
//   CO_TEST(Channel, GivesValuesInOrder) {           // under 50 simulated schedules, then on the real
//   executor
//     Channel<int> channel(1);
//     co_await channel.send(3);
//     std::optional<int> value = co_await channel.receive();
//     CO_ASSERT_TRUE(value.has_value());             // ends the body on failure
//     EXPECT_EQ(*value, 3);
//   }
namespace stoker {

inline constexpr uint64_t kTestSchedules = 50;

// Runs the task that `make` gives under one simulated schedule a seed, stopping at the first that fails.
inline void run_simulated_schedules(const std::function<Task<void>()>& make,
                                    uint64_t schedules = kTestSchedules) {
  for (uint64_t seed = 0; seed < schedules && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("schedule seed " + std::to_string(seed));
    SimulatedExecutor executor(seed);
    try {
      run(executor, make());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// Runs the task on the machine's clock and threads.
inline void run_real(const std::function<Task<void>()>& make) {
  if (::testing::Test::HasFailure()) return;
  SCOPED_TRACE("real executor");
  RealExecutor executor;
  try {
    run(executor, make());
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace stoker

#define STOKER_CO_TEST(suite, name, run_body)            \
  static ::stoker::Task<void> suite##_##name##_body();   \
  TEST(suite, name) { run_body(suite##_##name##_body); } \
  static ::stoker::Task<void> suite##_##name##_body()

#define CO_TEST(suite, name)                                                              \
  static void suite##_##name##_run(const ::std::function<::stoker::Task<void>()>& make) { \
    ::stoker::run_simulated_schedules(make);                                              \
    ::stoker::run_real(make);                                                             \
  }                                                                                       \
  STOKER_CO_TEST(suite, name, suite##_##name##_run)

// Only under simulated schedules: for long virtual times.
#define CO_TEST_SIMULATED(suite, name) STOKER_CO_TEST(suite, name, ::stoker::run_simulated_schedules)
// Only on the real executor: for threads.
#define CO_TEST_REAL(suite, name) STOKER_CO_TEST(suite, name, ::stoker::run_real)

#define CO_ASSERT_TRUE(condition)                                    \
  if (const bool holds = static_cast<bool>(condition); !holds) {     \
    ADD_FAILURE() << "CO_ASSERT_TRUE(" #condition ") does not hold"; \
    co_return;                                                       \
  }
