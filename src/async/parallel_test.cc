#include "async/parallel.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(ThreadTeam, CallsEachIndexOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (int count : {0, 1, 2, 5, 64, 1000}) {
      std::vector<int> calls(count);
      team.for_each(count, [&](int index) { ++calls[index]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1)) << threads << " threads, " << count << " indices";
    }
  }
}

TEST(ThreadTeam, PartitionIsStaticAndContiguous) {
  ThreadTeam team(3);
  std::vector<std::thread::id> first(10), second(10);
  team.for_each(10, [&](int index) { first[index] = std::this_thread::get_id(); });
  team.for_each(10, [&](int index) { second[index] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  for (int index : {1, 2}) EXPECT_EQ(first[index], first[0]);
  for (int index : {4, 5}) EXPECT_EQ(first[index], first[3]);
  for (int index : {7, 8, 9}) EXPECT_EQ(first[index], first[6]);
  EXPECT_NE(first[0], first[3]);
  EXPECT_NE(first[3], first[6]);
}

// Floating-point sums a row: the same bits for every number of threads.
std::vector<float> row_sums(Parallel& parallel) {
  std::vector<float> sums(37);
  parallel.for_each(37, [&](int row) {
    for (int column = 0; column < 500; ++column)
      sums[row] += 1.0f / static_cast<float>(1 + row * 500 + column);
  });
  return sums;
}

TEST(ThreadTeam, ResultDoesNotDependOnTheNumberOfThreads) {
  SerialParallel serial;
  const std::vector<float> expected = row_sums(serial);
  for (int threads : {1, 2, 4, 5}) {
    ThreadTeam team(threads);
    EXPECT_EQ(row_sums(team), expected);
  }
}

TEST(ThreadTeam, ManyShortLoops) {
  ThreadTeam team(2);
  std::vector<int64_t> sums(2);
  for (int loop = 0; loop < 2000; ++loop) team.for_each(2, [&](int index) { sums[index] += loop; });
  EXPECT_EQ(sums, std::vector<int64_t>(2, 1999 * 1000));
}

TEST(ThreadTeam, WorkersWakeAfterTheySlept) {
  ThreadTeam team(2);
  std::vector<int> calls(4);
  for (int loop = 0; loop < 3; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    team.for_each(4, [&](int index) { ++calls[index]; });
  }
  EXPECT_EQ(calls, std::vector<int>(4, 3));
}

TEST(ThreadTeam, ExceptionOfTheLowestThreadComesOutAfterAllHaveEnded) {
  ThreadTeam team(2);
  std::atomic<int> ended = 0;
  std::string message;
  try {
    team.for_each(4, [&](int index) {
      if (index == 0 || index == 2) throw std::runtime_error("index " + std::to_string(index));
      ++ended;
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "index 0");
  EXPECT_EQ(ended, 0);  // 1 and 3 come behind the throwing ones on their threads
  team.for_each(4, [&](int) { ++ended; });
  EXPECT_EQ(ended, 4);
}

TEST(ThreadTeam, LoopInsideABodyRunsOnItsThread) {
  ThreadTeam team(2);
  std::vector<int> calls(20);
  team.for_each(2, [&](int outer) {
    const std::thread::id thread = std::this_thread::get_id();
    team.for_each(10, [&](int inner) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      ++calls[outer * 10 + inner];
    });
  });
  EXPECT_EQ(calls, std::vector<int>(20, 1));
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int sum = 0;
  auto add = [&sum](int value) { return sum += value; };
  FunctionRef<int(int)> reference = add;
  EXPECT_EQ(reference(2), 2);
  EXPECT_EQ(reference(3), 5);
  EXPECT_EQ(sum, 5);
}

}  // namespace
}  // namespace stoker
