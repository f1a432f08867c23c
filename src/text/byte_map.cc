#include "text/byte_map.h"

#include <array>

#include "base/utf8.h"

namespace stoker {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr int kStandIns = 68;  // bytes that are not printable Latin-1

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}
constexpr std::array<char32_t, 256> kCharacters = make_characters();

constexpr std::array<uint8_t, kStandIns> make_stand_ins() {
  std::array<uint8_t, kStandIns> bytes{};
  for (int byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) bytes[kCharacters[byte] - kFirstStandIn] = static_cast<uint8_t>(byte);
  }
  return bytes;
}
constexpr std::array<uint8_t, kStandIns> kStandInBytes = make_stand_ins();

}  // namespace

char32_t byte_to_character(uint8_t byte) { return kCharacters[byte]; }

std::string bytes_to_name(std::string_view bytes) {
  std::string name;
  for (char byte : bytes) append_utf8(name, byte_to_character(static_cast<uint8_t>(byte)));
  return name;
}

std::optional<std::string> name_to_bytes(std::string_view name) {
  std::string bytes;
  while (!name.empty()) {
    Utf8Step step = utf8_step(name);
    if (!step.valid) return std::nullopt;
    if (step.code_point < kFirstStandIn && stands_for_itself(static_cast<int>(step.code_point))) {
      bytes.push_back(static_cast<char>(step.code_point));
    } else if (step.code_point >= kFirstStandIn && step.code_point < kFirstStandIn + kStandIns) {
      bytes.push_back(static_cast<char>(kStandInBytes[step.code_point - kFirstStandIn]));
    } else {
      return std::nullopt;
    }
    name.remove_prefix(step.size);
  }
  return bytes;
}

}  // namespace stoker
