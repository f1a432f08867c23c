#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace stoker {

// Hashes of bytes, the same on every machine and run. None is proof against an adversary.

// XXH3, 64 bits: keys of tables and caches.
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

// XXH3, 128 bits, as 32 hexadecimal digits: the digest of tensors and files in manifests.
std::string digest_hex(const void* data, size_t size);
inline std::string digest_hex(std::string_view bytes) { return digest_hex(bytes.data(), bytes.size()); }

// hash64 of bytes that come in parts: the same whatever the parts.
class Hasher64 {
 public:
  Hasher64();
  ~Hasher64();
  Hasher64(const Hasher64&) = delete;
  Hasher64& operator=(const Hasher64&) = delete;

  void add(const void* data, size_t size);
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of record framings; `crc` goes on from an earlier
// part.
uint32_t crc32c(std::string_view bytes, uint32_t crc = 0);

}  // namespace stoker
