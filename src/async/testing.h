#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "async/real_executor.h"
#include "async/run.h"
#include "async/simulated_executor.h"
#include "async/task.h"

namespace stoker {

inline constexpr uint64_t kTestSchedules = 50;

// Runs the task that `make` gives on `executor`; an exception fails the test.
inline void run_in_test(Executor& executor, const std::function<Task<void>()>& make) {
  try {
    run(executor, make());
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

// Runs it under one simulated schedule a seed, up to the first that fails.
inline void run_simulated(const std::function<Task<void>()>& make, uint64_t schedules = kTestSchedules) {
  for (uint64_t seed = 0; seed < schedules && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("schedule seed " + std::to_string(seed));
    SimulatedExecutor executor(seed);
    run_in_test(executor, make);
  }
}

// Runs it on the machine's clock and threads.
inline void run_real(const std::function<Task<void>()>& make) {
  SCOPED_TRACE("real executor");
  RealExecutor executor;
  run_in_test(executor, make);
}

// Runs it under simulated schedules and, if they are fine, on the real executor.
inline void run_everywhere(const std::function<Task<void>()>& make) {
  run_simulated(make);
  if (!::testing::Test::HasFailure()) run_real(make);
}

}  // namespace stoker

#define STOKER_CO_TEST(suite, name, runner)                      \
  static ::stoker::Task<void> suite##_##name##_body();           \
  TEST(suite, name) { ::stoker::runner(suite##_##name##_body); } \
  static ::stoker::Task<void> suite##_##name##_body()

// A test whose body is a coroutine, run under 50 simulated schedules and on the real executor.
//
//   CO_TEST(Channel, GivesValuesInOrder) {
//     Channel<int> channel(1);
//     co_await channel.send(3);
//     std::optional<int> value = co_await channel.receive();
//     CO_ASSERT_TRUE(value.has_value());   // ends the body on failure
//     EXPECT_EQ(*value, 3);
//   }
#define CO_TEST(suite, name) STOKER_CO_TEST(suite, name, run_everywhere)
// Only under simulated schedules: for long virtual times, and for times that are compared with each other,
// which a busy machine may turn round.
#define CO_TEST_SIMULATED(suite, name) STOKER_CO_TEST(suite, name, run_simulated)
// Only on the real executor: for threads.
#define CO_TEST_REAL(suite, name) STOKER_CO_TEST(suite, name, run_real)

// gtest's ASSERT macros use `return`, which a coroutine cannot.
#define CO_ASSERT_TRUE(condition)                                    \
  if (const bool holds = static_cast<bool>(condition); !holds) {     \
    ADD_FAILURE() << "CO_ASSERT_TRUE(" #condition ") does not hold"; \
    co_return;                                                       \
  }
