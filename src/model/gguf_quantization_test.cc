#include "model/gguf_quantization.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "model/float_types.h"
#include "model/safetensors.h"
#include "model/testing/models.h"

namespace stoker {
namespace {

constexpr GgufTensorType kQuantised[] = {GgufTensorType::kQ8_0, GgufTensorType::kQ4_0, GgufTensorType::kQ4_1,
                                         GgufTensorType::kQ5_0, GgufTensorType::kQ5_1, GgufTensorType::kQ4_K,
                                         GgufTensorType::kQ5_K, GgufTensorType::kQ6_K};

// The plain twin: one element of one block, from the tables of the format. A block is an array of bits.
class Block {
 public:
  explicit Block(const uint8_t* bytes) : bytes_(bytes) {}
  // `count` bits from bit `shift` of byte `index`.
  int bits(int index, int shift, int count) const { return (bytes_[index] >> shift) & ((1 << count) - 1); }
  int signed_byte(int index) const { return static_cast<int8_t>(bytes_[index]); }
  float half(int index) const {
    return half_to_float(static_cast<uint16_t>(bytes_[index] | bytes_[index + 1] << 8));
  }
  // Nibble of element i in runs of 2 n elements over n bytes: low nibbles are the first n.
  int nibble(int from, int n, int i) const {
    return bits(from + i / (2 * n) * n + i % n, i % (2 * n) < n ? 0 : 4, 4);
  }
  // Six-bit scale (which = 0) or minimum (which = 1) of group g among those of K-blocks, from byte 4.
  int six_bits(int which, int g) const {
    if (g < 4) return bits(4 + 4 * which + g, 0, 6);
    return bits(12 + g - 4, 4 * which, 4) + 16 * bits(4 + 4 * which + g - 4, 6, 2);
  }

 private:
  const uint8_t* bytes_;
};

float element(GgufTensorType type, const Block& b, int i) {
  const auto number = [](int q) { return static_cast<float>(q); };
  const float d = b.half(type == GgufTensorType::kQ6_K ? 208 : 0);
  switch (type) {
    case GgufTensorType::kQ8_0:
      return number(b.signed_byte(2 + i)) * d;
    case GgufTensorType::kQ4_0:
      return number(b.nibble(2, 16, i) - 8) * d;
    case GgufTensorType::kQ4_1:
      return number(b.nibble(4, 16, i)) * d + b.half(2);
    case GgufTensorType::kQ5_0:
      return number(b.nibble(6, 16, i) + 16 * b.bits(2 + i / 8, i % 8, 1) - 16) * d;
    case GgufTensorType::kQ5_1:
      return number(b.nibble(8, 16, i) + 16 * b.bits(4 + i / 8, i % 8, 1)) * d + b.half(2);
    case GgufTensorType::kQ4_K:
      return number(b.nibble(16, 32, i)) * (d * number(b.six_bits(0, i / 32))) -
             b.half(2) * number(b.six_bits(1, i / 32));
    case GgufTensorType::kQ5_K:
      return number(b.nibble(48, 32, i) + 16 * b.bits(16 + i % 32, i / 32, 1)) *
                 (d * number(b.six_bits(0, i / 32))) -
             b.half(2) * number(b.six_bits(1, i / 32));
    case GgufTensorType::kQ6_K:
      return number(b.nibble(0, 64, i) + 16 * b.bits(128 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2) - 32) *
             (d * number(b.signed_byte(192 + i / 16)));
    default:
      ADD_FAILURE() << "no quantised type";
      return 0;
  }
}

TEST(GgufQuantization, RandomBlocksHaveTheBitsOfThePlainTwin) {
  RandomStream random({.run_seed = 3});
  for (const GgufTensorType type : kQuantised) {
    const GgufBlockLayout& layout = *gguf_block_layout(type);
    constexpr int kBlocks = 40;
    std::vector<uint8_t> bytes(kBlocks * static_cast<size_t>(layout.bytes));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.below(256));
    std::vector<float> values(kBlocks * static_cast<size_t>(layout.elements));
    dequantize(type, std::as_bytes(std::span(bytes)), values);
    for (size_t v = 0; v < values.size(); ++v) {
      const int64_t block = static_cast<int64_t>(v) / layout.elements;
      const float expected = element(type, Block(bytes.data() + block * layout.bytes),
                                     static_cast<int>(static_cast<int64_t>(v) % layout.elements));
      // Scales of random bits may be infinite or no number.
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(values[v])) << layout.name << " " << v;
      } else {
        EXPECT_EQ(values[v], expected) << layout.name << " " << v;
      }
    }
  }
}

TEST(GgufQuantization, GivesTheRecordedValuesOfTheReferencePackage) {
  const SafetensorsFile golden(std::filesystem::path(STOKER_SOURCE_DIR) /
                               "src/model/goldens/gguf_blocks.safetensors");
  for (const GgufTensorType type : kQuantised) {
    const std::string name = gguf_block_layout(type)->name;
    const TensorView* expected = golden.find(name + ".values");
    std::vector<float> values(expected->data.size() / sizeof(float)), recorded(values.size());
    copy_to_float(*expected, recorded);
    dequantize(type, golden.find(name + ".bytes")->data, values);
    EXPECT_EQ(values, recorded) << name;
  }
}

TEST(GgufQuantization, PlainTypesAndRefusals) {
  const std::vector<uint16_t> halves = {0x3C00, 0xC000, 0x0001};
  std::vector<float> values(3);
  dequantize(GgufTensorType::kF16, std::as_bytes(std::span(halves)), values);
  EXPECT_EQ(values, (std::vector<float>{1, -2, 0x1p-24f}));
  const std::vector<uint16_t> brains = {0x3F80, 0xC000, 0x0001};
  dequantize(GgufTensorType::kBF16, std::as_bytes(std::span(brains)), values);
  EXPECT_EQ(values, (std::vector<float>{1, -2, 0x1p-133f}));
  const std::vector<float> floats = {1.5f, -0.0f, 3e38f};
  dequantize(GgufTensorType::kF32, std::as_bytes(std::span(floats)), values);
  EXPECT_EQ(values, floats);
  EXPECT_FALSE(can_dequantize(static_cast<GgufTensorType>(10)));  // Q2_K
  EXPECT_THROW(dequantize(static_cast<GgufTensorType>(10), {}, {}), Error);
  EXPECT_THROW(dequantize(GgufTensorType::kQ8_0, std::as_bytes(std::span(halves)), values), Error);
}

TEST(FloatTypes, RoundToNearestAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half), brain = brain_to_float(half);
    if (!std::isnan(value)) EXPECT_EQ(float_to_half(value), half);
    if (!std::isnan(brain)) EXPECT_EQ(float_to_brain(brain), half);
  }
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(NAN))));
  EXPECT_TRUE(std::isnan(brain_to_float(float_to_brain(NAN))));
  RandomStream random({.run_seed = 4});
  for (int i = 0; i < 100000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random.below(uint64_t{1} << 32)));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_half(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
    // Of the two neighbours the nearer one, and the even one of two equally near.
    const uint32_t exact = std::bit_cast<uint32_t>(value);
    const uint32_t below = exact >> 16, rest = exact & 0xFFFFu;
    const bool up = rest > 0x8000u || (rest == 0x8000u && below % 2 == 1);
    EXPECT_EQ(float_to_brain(value), below + (up ? 1 : 0)) << value;
  }
}

}  // namespace
}  // namespace stoker
