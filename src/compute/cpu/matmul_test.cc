// Matrix products of every instruction set against the plain twin.

#include <gtest/gtest.h>

#include <cmath>

#include "compute/cpu/kernels.h"
#include "compute/cpu/reference.h"
#include "compute/cpu/test_support.h"
#include "model/float_types.h"

namespace stoker::cpu {
namespace {

// W [n, k] in panels of 16 columns.
std::vector<float> panels_of(const std::vector<float>& w, int n, int k) {
  std::vector<float> result(padded(n) * k, 0.0f);
  for (int j = 0; j < n; ++j) {
    for (int d = 0; d < k; ++d) result[(j / 16 * k + d) * 16 + j % 16] = w[j * k + d];
  }
  return result;
}

// The same in bfloat16, depths in pairs; of an odd depth the last one's partner is NaN.
std::vector<uint16_t> bfloat16_panels_of(const std::vector<float>& w, int n, int k) {
  const int pairs = (k + 1) / 2;
  std::vector<uint16_t> result(padded(n) * pairs * 2, 0x7FC0);
  for (int j = 0; j < n; ++j) {
    for (int d = 0; d < k; ++d)
      result[(j / 16 * pairs + d / 2) * 32 + j % 16 * 2 + d % 2] = float_to_brain(w[j * k + d]);
  }
  return result;
}

std::vector<float> transposed(const std::vector<float>& x, int rows, int columns) {
  std::vector<float> result(x.size());
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) result[j * rows + i] = x[i * columns + j];
  }
  return result;
}

// The first `count` columns of x [rows, columns].
std::vector<float> first_of_each(const std::vector<float>& x, int columns, int count) {
  std::vector<float> result;
  for (size_t row = 0; row < x.size(); row += columns) {
    result.insert(result.end(), x.begin() + row, x.begin() + row + count);
  }
  return result;
}

TEST(Matmul, HasTheBitsOfThePlainTwinForEveryShape) {
  for (const Kernels* k : kernel_tables()) {
    for (const int m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 24, 25, 47, 300}) {
      for (const int n : {1, 15, 16, 17, 48, 64, 70}) {
        for (const int depth : {1, 2, 5, 16, 33}) {
          const std::vector<float> x = random_floats(m * depth, m + 1), w = random_floats(n * depth, n + 2);
          const std::vector<float> panels = panels_of(w, n, depth), columns = transposed(x, m, depth);
          const std::vector<float> expected = reference::linear<float>(x, w, m, n, depth);
          const RightMatrix right{panels.data(), int64_t{depth} * 16, 16};
          std::vector<float> c(m * n, 5.0f), by_columns(m * n, 5.0f);
          k->matmul(m, depth, n, {x.data(), depth, 1}, right, c.data(), n, Write::kStore);
          k->matmul(m, depth, n, {columns.data(), 1, m}, right, by_columns.data(), n, Write::kStore);
          ASSERT_EQ(first_difference(c, expected), -1) << k->name << " " << m << " x " << n << " x " << depth;
          ASSERT_EQ(first_difference(by_columns, expected), -1)
              << k->name << " " << m << " x " << n << " x " << depth;
        }
      }
    }
  }
}

TEST(Matmul, OfBfloat16HasTheBitsOfThePlainTwinForEveryShape) {
  for (const Kernels* k : kernel_tables()) {
    for (const int m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25, 47}) {
      for (const int n : {1, 15, 16, 17, 48, 64, 70}) {
        for (const int depth : {1, 2, 5, 16, 33}) {
          const std::vector<float> x = random_floats(m * depth, m + 1), w = random_floats(n * depth, n + 2);
          const std::vector<uint16_t> panels = bfloat16_panels_of(w, n, depth);
          const std::vector<float> columns = transposed(x, m, depth);
          const std::vector<float> expected =
              reference::linear<float>(x, reference::rounded<float>(w, ComputeType::kBfloat16), m, n, depth);
          const RightMatrix right{panels.data(), int64_t{depth + 1} / 2 * 32, 16, ComputeType::kBfloat16};
          std::vector<float> c(m * n, 5.0f), by_columns(m * n, 5.0f);
          k->matmul(m, depth, n, {x.data(), depth, 1}, right, c.data(), n, Write::kStore);
          k->matmul(m, depth, n, {columns.data(), 1, m}, right, by_columns.data(), n, Write::kStore);
          ASSERT_EQ(first_difference(c, expected), -1) << k->name << " " << m << " x " << n << " x " << depth;
          ASSERT_EQ(first_difference(by_columns, expected), -1)
              << k->name << " " << m << " x " << n << " x " << depth;
        }
      }
    }
  }
}

// With the smaller scale most products and many sums are denormal, and so they are zero.
void expect_rounded_product(const Kernels& k, int m, int n, int depth, float scale) {
  const std::vector<float> x = random_floats(m * depth, m + 1, scale);
  const std::vector<float> w = random_floats(n * depth, n + 2, scale);
  const std::vector<uint16_t> panels = bfloat16_panels_of(w, n, depth);
  const std::vector<float> columns = transposed(x, m, depth);
  const std::vector<float> expected = reference::linear<float>(
      x, reference::rounded<float>(w, ComputeType::kBfloat16), m, n, depth, ComputeType::kBfloat16);
  const RightMatrix right{panels.data(), int64_t{depth} * 16, 16, ComputeType::kBfloat16, true};
  std::vector<float> c(m * n, 5.0f), by_columns(m * n, 5.0f);
  k.matmul(m, depth, n, {x.data(), depth, 1}, right, c.data(), n, Write::kStore);
  k.matmul(m, depth, n, {columns.data(), 1, m}, right, by_columns.data(), n, Write::kStore);
  ASSERT_EQ(first_difference(c, expected), -1) << k.name << " " << m << " x " << n << " x " << depth;
  ASSERT_EQ(first_difference(by_columns, expected), -1) << k.name << " " << m << " x " << n << " x " << depth;
}

TEST(Matmul, ThatRoundsItsLeftOperandHasTheBitsOfThePlainTwinForEveryShape) {
  for (const Kernels* k : kernel_tables()) {
    for (const int m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 25, 47}) {
      for (const int n : {1, 16, 17, 48, 70}) {
        for (const int depth : {2, 6, 16, 34, 96}) {
          for (const float scale : {1.0f, 0x1p-63f}) expect_rounded_product(*k, m, n, depth, scale);
        }
      }
    }
  }
}

TEST(Matmul, ProductsThatRoundKeepInfinitiesAndNaNAndLeaveDenormalsToOthers) {
  for (const Kernels* k : kernel_tables()) {
    const std::vector<float> x = {INFINITY, 0, NAN, 1e-40f}, w = {1, 1};
    const std::vector<uint16_t> panels = bfloat16_panels_of(w, 1, 2);
    const RightMatrix right{panels.data(), 32, 16, ComputeType::kBfloat16, true};
    std::vector<float> c(2);
    k->matmul(2, 2, 1, {x.data(), 2, 1}, right, c.data(), 1, Write::kStore);
    EXPECT_EQ(c[0], INFINITY) << k->name;
    EXPECT_TRUE(std::isnan(c[1])) << k->name;
    volatile float small = 1e-38f;
    EXPECT_NE(small * 0.1f, 0.0f) << k->name;
  }
}

// Taken in portions of the depth, of which the last one is odd where that is allowed.
TEST(Matmul, DeepProductsHaveTheBitsOfThePlainTwin) {
  constexpr int kRows = 7, kColumns = 18, kDepth = 4699, kEven = kDepth - 1;
  const std::vector<float> x = random_floats(kRows * kDepth, 1), w = random_floats(kColumns * kDepth, 2);
  const std::vector<float> panels = panels_of(w, kColumns, kDepth);
  const std::vector<uint16_t> brains = bfloat16_panels_of(w, kColumns, kDepth);
  const std::vector<float> before = random_floats(kRows * kColumns, 3);
  const std::vector<float> expected[] = {
      reference::linear<float>(x, w, kRows, kColumns, kDepth),
      reference::linear<float>(x, reference::rounded<float>(w, ComputeType::kBfloat16), kRows, kColumns,
                               kDepth),
      reference::linear<float>(
          first_of_each(x, kDepth, kEven),
          first_of_each(reference::rounded<float>(w, ComputeType::kBfloat16), kDepth, kEven), kRows, kColumns,
          kEven, ComputeType::kBfloat16)};
  const RightMatrix rights[] = {{panels.data(), kDepth * 16, 16},
                                {brains.data(), (kDepth + 1) * 16, 16, ComputeType::kBfloat16},
                                {brains.data(), (kDepth + 1) * 16, 16, ComputeType::kBfloat16, true}};
  for (const Kernels* k : kernel_tables()) {
    for (int type = 0; type < 3; ++type) {
      const int depth = type == 2 ? kEven : kDepth;
      std::vector<float> c(before.size()), added = before;
      k->matmul(kRows, depth, kColumns, {x.data(), kDepth, 1}, rights[type], c.data(), kColumns,
                Write::kStore);
      EXPECT_EQ(first_difference(c, expected[type]), -1) << k->name;
      k->matmul(kRows, depth, kColumns, {x.data(), kDepth, 1}, rights[type], added.data(), kColumns,
                Write::kAdd);
      for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(added[i], before[i] + expected[type][i]);
    }
  }
}

TEST(Matmul, AddsAndContinues) {
  constexpr int kRows = 13, kColumns = 21, kDepth = 40, kFirst = 17;
  const std::vector<float> x = random_floats(kRows * kDepth, 1), w = random_floats(kColumns * kDepth, 2);
  const std::vector<float> panels = panels_of(w, kColumns, kDepth);
  const std::vector<float> before = random_floats(kRows * kColumns, 3);
  const std::vector<float> product = reference::linear<float>(x, w, kRows, kColumns, kDepth);
  for (const Kernels* k : kernel_tables()) {
    std::vector<float> added = before, continued(before.size());
    k->matmul(kRows, kDepth, kColumns, {x.data(), kDepth, 1}, {panels.data(), kDepth * 16, 16}, added.data(),
              kColumns, Write::kAdd);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(added[i], before[i] + product[i]);
    k->matmul(kRows, kFirst, kColumns, {x.data(), kDepth, 1}, {panels.data(), kDepth * 16, 16},
              continued.data(), kColumns, Write::kStore);
    k->matmul(kRows, kDepth - kFirst, kColumns, {x.data() + kFirst, kDepth, 1},
              {panels.data() + kFirst * 16, kDepth * 16, 16}, continued.data(), kColumns, Write::kContinue);
    EXPECT_EQ(first_difference(continued, product), -1) << k->name;
  }
}

}  // namespace
}  // namespace stoker::cpu
