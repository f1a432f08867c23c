#include "model/gguf_quantization.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "model/float_types.h"

namespace stoker {
namespace {

// One block in, its values out. All numbers are little-endian; d and m are halves.
using BlockReader = void (*)(const uint8_t* block, float* values);

uint16_t bits16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return bits;
}
float half_at(const uint8_t* p) { return half_to_float(bits16(p)); }

void read_f32(const uint8_t* block, float* values) { std::memcpy(values, block, sizeof(float)); }
void read_f16(const uint8_t* block, float* values) { values[0] = half_at(block); }
void read_bf16(const uint8_t* block, float* values) { values[0] = brain_to_float(bits16(block)); }

// d, 32 signed bytes: q d.
void read_q8_0(const uint8_t* block, float* values) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) values[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}

// d, 16 bytes: the low nibbles are elements 0 to 15, the high ones 16 to 31: (q - 8) d.
void read_q4_0(const uint8_t* block, float* values) {
  const float d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    values[i] = static_cast<float>((block[2 + i] & 15) - 8) * d;
    values[16 + i] = static_cast<float>((block[2 + i] >> 4) - 8) * d;
  }
}

// d, m, 16 bytes as above: q d + m.
void read_q4_1(const uint8_t* block, float* values) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    values[i] = static_cast<float>(block[4 + i] & 15) * d + m;
    values[16 + i] = static_cast<float>(block[4 + i] >> 4) * d + m;
  }
}

// Four bytes of fifth bits, element i in bit i, before the nibbles.
int fifth_bit(uint32_t high, int element) { return static_cast<int>((high >> element) & 1u) << 4; }

// d, fifth bits, nibbles: (q - 16) d.
void read_q5_0(const uint8_t* block, float* values) {
  const float d = half_at(block);
  uint32_t high;
  std::memcpy(&high, block + 2, sizeof(high));
  for (int i = 0; i < 16; ++i) {
    values[i] = static_cast<float>(((block[6 + i] & 15) | fifth_bit(high, i)) - 16) * d;
    values[16 + i] = static_cast<float>(((block[6 + i] >> 4) | fifth_bit(high, 16 + i)) - 16) * d;
  }
}

// d, m, fifth bits, nibbles: q d + m.
void read_q5_1(const uint8_t* block, float* values) {
  const float d = half_at(block), m = half_at(block + 2);
  uint32_t high;
  std::memcpy(&high, block + 4, sizeof(high));
  for (int i = 0; i < 16; ++i) {
    values[i] = static_cast<float>((block[8 + i] & 15) | fifth_bit(high, i)) * d + m;
    values[16 + i] = static_cast<float>((block[8 + i] >> 4) | fifth_bit(high, 16 + i)) * d + m;
  }
}

// Scale and minimum, six bits each, of the eight groups of 32 in a block of 256; packed into twelve bytes.
struct GroupScale {
  float scale, minimum;
};
GroupScale group_scale(const uint8_t* packed, int group) {
  if (group < 4) {
    return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  }
  return {static_cast<float>((packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4)),
          static_cast<float>((packed[group + 4] >> 4) | ((packed[group] >> 6) << 4))};
}

// d, dmin, 12 bytes of group scales, 128 bytes: 32 bytes hold two groups, low nibbles first:
// q (d scale) - dmin minimum.
void read_q4_k(const uint8_t* block, float* values) {
  const float d = half_at(block), least = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const GroupScale g = group_scale(block + 4, group);
    const uint8_t* q = block + 16 + group / 2 * 32;
    const float scale = d * g.scale, minimum = least * g.minimum;
    for (int i = 0; i < 32; ++i) {
      values[group * 32 + i] = static_cast<float>((q[i] >> (group % 2 * 4)) & 15) * scale - minimum;
    }
  }
}

// As Q4_K with 32 bytes of fifth bits before the nibbles: bit `group` of byte i.
void read_q5_k(const uint8_t* block, float* values) {
  const float d = half_at(block), least = half_at(block + 2);
  const uint8_t* high = block + 16;
  for (int group = 0; group < 8; ++group) {
    const GroupScale g = group_scale(block + 4, group);
    const uint8_t* q = block + 48 + group / 2 * 32;
    const float scale = d * g.scale, minimum = least * g.minimum;
    for (int i = 0; i < 32; ++i) {
      const int value = ((q[i] >> (group % 2 * 4)) & 15) | (((high[i] >> group) & 1) << 4);
      values[group * 32 + i] = static_cast<float>(value) * scale - minimum;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high pairs, 16 signed scales of 16 elements each, d. Each half of 128
// elements has 64 bytes of nibbles and 32 of pairs: (q - 32) (d scale).
void read_q6_k(const uint8_t* block, float* values) {
  const float d = half_at(block + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = block + half * 64;
    const uint8_t* high = block + 128 + half * 32;
    for (int quarter = 0; quarter < 4; ++quarter) {
      const uint8_t* nibbles = low + quarter % 2 * 32;
      for (int i = 0; i < 32; ++i) {
        const int q = ((nibbles[i] >> (quarter / 2 * 4)) & 15) | (((high[i] >> (quarter * 2)) & 3) << 4);
        const int element = half * 128 + quarter * 32 + i;
        const auto scale = static_cast<float>(static_cast<int8_t>(block[192 + element / 16]));
        values[element] = static_cast<float>(q - 32) * (d * scale);
      }
    }
  }
}

struct Format {
  GgufTensorType type;
  BlockReader read;
};
constexpr Format kFormats[] = {
    {GgufTensorType::kF32, read_f32},   {GgufTensorType::kF16, read_f16},
    {GgufTensorType::kBF16, read_bf16}, {GgufTensorType::kQ8_0, read_q8_0},
    {GgufTensorType::kQ4_0, read_q4_0}, {GgufTensorType::kQ4_1, read_q4_1},
    {GgufTensorType::kQ5_0, read_q5_0}, {GgufTensorType::kQ5_1, read_q5_1},
    {GgufTensorType::kQ4_K, read_q4_k}, {GgufTensorType::kQ5_K, read_q5_k},
    {GgufTensorType::kQ6_K, read_q6_k},
};

const Format* find_format(GgufTensorType type) {
  for (const Format& format : kFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

}  // namespace

bool can_dequantize(GgufTensorType type) { return find_format(type) != nullptr; }

void dequantize(GgufTensorType type, std::span<const std::byte> bytes, std::span<float> values) {
  const Format* format = find_format(type);
  const GgufBlockLayout* layout = gguf_block_layout(type);
  if (format == nullptr || layout == nullptr) {
    throw internal_error(
        fmt::format("Tensors of GGUF type {} cannot be dequantised.", static_cast<uint32_t>(type)));
  }
  const size_t elements = static_cast<size_t>(layout->elements);
  const size_t size = static_cast<size_t>(layout->bytes), blocks = values.size() / elements;
  if (values.size() % elements != 0 || bytes.size() != blocks * size) {
    throw internal_error(
        fmt::format("{} bytes of {} do not hold {} elements.", bytes.size(), layout->name, values.size()));
  }
  const auto* in = reinterpret_cast<const uint8_t*>(bytes.data());
  float* out = values.data();
  for (size_t b = 0; b < blocks; ++b, in += size, out += elements) format->read(in, out);
}

}  // namespace stoker
