#include "base/hash.h"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // the state of a streamed hash by value
#include <xxhash.h>

#include <array>

namespace stoker {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}

}  // namespace

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

struct Hasher64::State {
  XXH3_state_t xxh;
};

Hasher64::Hasher64() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Hasher64::~Hasher64() = default;

void Hasher64::add(const void* data, size_t size) { XXH3_64bits_update(&state_->xxh, data, size); }

uint64_t Hasher64::digest() const { return XXH3_64bits_digest(&state_->xxh); }

std::string digest_hex(const void* data, size_t size) {
  XXH128_hash_t hash = XXH3_128bits(data, size);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

uint32_t crc32c(std::string_view bytes, uint32_t crc) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  crc = ~crc;
  for (unsigned char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ byte) & 0xFF];
  return ~crc;
}

}  // namespace stoker
