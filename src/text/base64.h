#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// The bytes that `text` stands for in base64 (RFC 4648, section 4) with its padding; nothing for other
// characters, a wrong length or bits set that are cut off.
std::optional<std::string> decode_base64(std::string_view text);

std::string encode_base64(std::string_view bytes);

}  // namespace stoker
