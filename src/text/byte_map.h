#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

// GPT-2's map between bytes and printable characters, in which byte-level vocabularies are written (Radford
// et al. 2019, the released encoder.py, bytes_to_unicode): printable Latin-1 stands for itself, the rest for
// U+0100 and up.
char32_t byte_to_character(uint8_t byte);

// The name of a token of these bytes.
std::string bytes_to_name(std::string_view bytes);
// The reverse; nothing when a character is not in the map.
std::optional<std::string> name_to_bytes(std::string_view name);

}  // namespace stoker
