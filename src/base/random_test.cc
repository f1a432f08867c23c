#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"

namespace stoker {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(StreamKey, EveryFieldChangesTheDraw) {
  StreamKey base{.run_seed = 7, .task_ordinal = 3, .sample = 1, .attempt = 0, .turn = 2};
  std::vector<StreamKey> keys(7, base);
  keys[1].run_seed = 8;
  keys[2].purpose = RandomPurpose::kEvaluate;
  keys[3].task_ordinal = 4;
  keys[4].sample = 2;
  keys[5].attempt = 1;
  keys[6].turn = 3;
  std::set<std::array<uint32_t, 4>> draws;
  for (const StreamKey& key : keys) draws.insert(random_bits(key, 0));
  draws.insert(random_bits(base, 1));
  draws.insert(random_bits(base, uint64_t{1} << 32));
  EXPECT_EQ(draws.size(), keys.size() + 2);
}

TEST(StreamKey, SwappedFieldsAreDifferentStreams) {
  StreamKey a{.run_seed = 1, .task_ordinal = 2, .sample = 3, .attempt = 4};
  StreamKey b{.run_seed = 2, .task_ordinal = 1, .sample = 4, .attempt = 3};
  EXPECT_NE(random_bits(a, 0), random_bits(b, 0));
}

TEST(RandomUniform, IsAPureFunctionOfKeyAndPosition) {
  StreamKey key{.run_seed = 11};
  double at_nine = random_uniform(key, 9);
  for (uint64_t position = 0; position < 9; ++position) random_uniform(key, position);
  EXPECT_EQ(random_uniform(key, 9), at_nine);
}

TEST(RandomUniform, HasTheMomentsOfTheUnitInterval) {
  StreamKey key{.run_seed = 5};
  const int count = 200000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    double u = random_uniform(key, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / count, 0.5, 0.004);
  EXPECT_NEAR(squares / count, 1.0 / 3.0, 0.004);
}

TEST(RandomStream, BelowIsUniformAndRefusesZero) {
  RandomStream stream(StreamKey{.run_seed = 1});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(stream.below(7));
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_THROW(stream.below(0), Error);
  EXPECT_EQ(stream.below(1), 0u);
}

TEST(RandomStream, NormalHasMeanZeroAndVarianceOne) {
  RandomStream stream(StreamKey{.run_seed = 2, .purpose = RandomPurpose::kInit});
  const int count = 100000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    double x = stream.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / count, 0.0, 0.02);
  EXPECT_NEAR(squares / count, 1.0, 0.03);
}

}  // namespace
}  // namespace stoker
