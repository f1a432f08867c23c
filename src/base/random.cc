#include "base/random.h"

#include <cmath>

#include "base/error.h"

namespace stoker {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u;
constexpr uint32_t kWeyl1 = 0xBB67AE85u;

// splitmix64's finaliser: a bijective mix of 64 bits.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

uint64_t combine(uint64_t seed, uint64_t value) { return mix(seed + 0x9E3779B97F4A7C15ull + mix(value)); }

// The fields that do not fit the 128-bit counter are folded into the 64-bit key; sample, attempt and turn
// too, so that the counter is left to the position alone.
uint64_t fold(const StreamKey& stream) {
  uint64_t key = combine(stream.run_seed, static_cast<uint64_t>(stream.purpose));
  key = combine(key, stream.task_ordinal);
  key = combine(key, (uint64_t{stream.sample} << 32) | stream.attempt);
  return combine(key, stream.turn);
}

double to_unit(uint32_t high, uint32_t low) {
  uint64_t bits = (uint64_t{high} << 32) | low;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> random_bits(const StreamKey& stream, uint64_t position) {
  uint64_t key = fold(stream);
  return philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
                    {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

double random_uniform(const StreamKey& stream, uint64_t position) {
  auto bits = random_bits(stream, position);
  return to_unit(bits[0], bits[1]);
}

uint64_t RandomStream::bits() {
  auto block = random_bits(key_, position_++);
  return (uint64_t{block[0]} << 32) | block[1];
}

double RandomStream::uniform() { return random_uniform(key_, position_++); }

uint64_t RandomStream::below(uint64_t bound) {
  if (bound == 0) throw internal_error("RandomStream::below needs a bound above 0.");
  uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t value = bits();
  while (value >= limit) value = bits();
  return value % bound;
}

double RandomStream::normal() {
  double u = 1.0 - uniform();  // (0, 1]: log(u) is finite
  double v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v);
}

}  // namespace stoker
