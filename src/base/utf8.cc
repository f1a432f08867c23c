#include "base/utf8.h"

namespace stoker {
namespace {

// What may follow a first byte: number of further bytes and the range of the second one (RFC 3629, section
// 4).
struct Lead {
  uint8_t further = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0xC2 || byte > 0xF4) return {};
  if (byte < 0xE0) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte < 0xF0) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {3, 0x80, 0xBF};
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  uint8_t first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {first, 1, true, false};
  Lead lead = lead_of(first);
  if (lead.further == 0) return {0, 1, false, false};
  char32_t code_point = first & (0x3F >> lead.further);
  for (uint8_t i = 1; i <= lead.further; ++i) {
    if (i == bytes.size()) return {0, i, false, true};
    uint8_t byte = static_cast<uint8_t>(bytes[i]);
    uint8_t low = i == 1 ? lead.low : 0x80;
    uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {0, i, false, false};
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  return {code_point, static_cast<uint8_t>(lead.further + 1), true, false};
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    Utf8Step step = utf8_step(bytes);
    out += step.valid ? bytes.substr(0, step.size) : std::string_view("\xEF\xBF\xBD");
    bytes.remove_prefix(step.size);
  }
  return out;
}

void append_utf8(std::string& out, char32_t code_point) {
  auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

}  // namespace stoker
