#include "environment/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stoker {
namespace {

std::vector<uint64_t> epoch(const EpochOrder& order, uint64_t number) {
  std::vector<uint64_t> rows;
  for (uint64_t i = 0; i < order.rows(); ++i) rows.push_back(order.row(number * order.rows() + i));
  return rows;
}

TEST(EpochOrder, EveryEpochIsAPermutationOfItsOwn) {
  for (uint64_t rows : {1, 2, 3, 10, 1000}) {
    EpochOrder order(rows, 7);
    std::vector<uint64_t> previous;
    for (uint64_t number = 0; number < 4; ++number) {
      std::vector<uint64_t> current = epoch(order, number);
      std::vector<uint64_t> sorted = current;
      std::sort(sorted.begin(), sorted.end());
      for (uint64_t i = 0; i < rows; ++i) ASSERT_EQ(sorted[i], i);
      if (rows >= 10) EXPECT_NE(current, previous);
      previous = current;
    }
  }
}

TEST(EpochOrder, IsAPureFunctionWhateverWasAskedBefore) {
  EpochOrder one(100, 3);
  EpochOrder other(100, 3);
  EpochOrder different(100, 4);
  std::vector<uint64_t> third = epoch(one, 3);
  for (uint64_t ordinal : {5u, 950u, 120u, 7u, 350u, 951u, 121u}) other.row(ordinal);
  EXPECT_EQ(epoch(other, 3), third);
  EXPECT_NE(epoch(different, 3), third);
  EXPECT_EQ(one.row(UINT64_MAX), other.row(UINT64_MAX));
}

// 10 batches of 2 an epoch; stopped at batch 14.
TEST(EpochOrder, CKP_09_AResumedRunGoesOnInTheEpochsOwnOrder) {
  EpochOrder whole(20, 11);
  std::vector<uint64_t> expected;
  for (uint64_t ordinal = 28; ordinal < 60; ++ordinal) expected.push_back(whole.row(ordinal));
  EpochOrder resumed(20, 11);
  std::vector<uint64_t> rows;
  for (uint64_t ordinal = 28; ordinal < 60; ++ordinal) rows.push_back(resumed.row(ordinal));
  EXPECT_EQ(rows, expected);
}

TEST(EpochOrder, AllOrdersOfThreeRowsComeUp) {
  EpochOrder order(3, 1);
  std::vector<int> counts(27, 0);
  for (uint64_t number = 0; number < 6000; ++number) {
    std::vector<uint64_t> rows = epoch(order, number);
    ++counts[rows[0] * 9 + rows[1] * 3 + rows[2]];
  }
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), 21);
  for (int count : counts) {
    if (count > 0) EXPECT_NEAR(count, 1000, 120);
  }
}

}  // namespace
}  // namespace stoker
