#pragma once

#include <cstdint>

namespace stoker {

// Who wrote a token or a stretch of text: the loss mask of supervised training and the spans of a trajectory
// derive from it.
enum class Author : uint8_t { kSystem, kUser, kAssistant, kTool, kTemplate };

// "system", "user", "assistant", "tool", "template".
const char* to_string(Author author);

}  // namespace stoker
