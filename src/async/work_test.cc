#include "async/work.h"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace stoker {
namespace {

// Counts its live copies, so that a lost or a double destruction shows.
struct Counted {
  explicit Counted(int& live) : live(&live) { ++*this->live; }
  Counted(Counted&& other) noexcept : live(other.live) { ++*live; }
  ~Counted() { --*live; }
  void operator()() const { *live += 100; }
  int* live;
};

TEST(Work, RunsSmallAndLargeCallables) {
  int small = 0;
  Work first([&small] { ++small; });
  first();
  EXPECT_EQ(small, 1);

  std::array<int, 100> values{};
  values[99] = 7;
  int large = 0;
  Work second([values, &large] { large = values[99]; });
  second();
  EXPECT_EQ(large, 7);
}

TEST(Work, HoldsMoveOnlyCallables) {
  int seen = 0;
  Work work([value = std::make_unique<int>(3), &seen] { seen = *value; });
  Work moved = std::move(work);
  EXPECT_FALSE(work);  // NOLINT: a moved-from Work is empty
  moved();
  EXPECT_EQ(seen, 3);
}

TEST(Work, DestroysItsCallableOnce) {
  int live = 0;
  {
    Work work{Counted(live)};
    EXPECT_EQ(live, 1);
    Work moved = std::move(work);
    EXPECT_EQ(live, 1);
    moved = Work([] {});
    EXPECT_EQ(live, 0);
    moved = Work{Counted(live)};
    moved();
    EXPECT_EQ(live, 101);
  }
  EXPECT_EQ(live, 100);
}

TEST(Work, DestroysAHeldCallableOfTheHeapOnce) {
  int live = 0;
  {
    Work work([counted = Counted(live), padding = std::array<char, 64>{}] { (void)padding; });
    std::vector<Work> works;
    works.push_back(std::move(work));
    works.emplace_back([] {});
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

TEST(Work, KnowsTheCoroutineItResumes) {
  const std::coroutine_handle<> noop = std::noop_coroutine();
  EXPECT_TRUE(Work(Continuation{noop, nullptr}).resumes(noop));
  EXPECT_FALSE(Work(Continuation{std::coroutine_handle<>(), nullptr}).resumes(noop));
  EXPECT_FALSE(Work([] {}).resumes(noop));
}

}  // namespace
}  // namespace stoker
