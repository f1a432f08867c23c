#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "environment/environment.h"

namespace stoker {

// The policy's final answer: the content of the last message. Empty when there is none: the episode ended on
// a failure (a limit included), inside a tool call, or in a turn that was cut before its end token.
std::optional<std::string> final_answer(const EpisodeView& episode);

// The last number in a text, in canonical form: "-12.5", without leading or trailing zeros. Reads "1,234",
// "$18.00", "18.", "50 %", "1e3", "−7"; a sign counts unless a letter, a digit or ")" stands before it
// ("3-15" ends with 15). Empty when there is no number. Linear in the length.
std::optional<std::string> last_number(std::string_view text);

// Blanks at the ends removed, other runs of blanks made one; `ignore_case`: ASCII letters made small.
std::string normalized_text(std::string_view text, bool ignore_case);

}  // namespace stoker
