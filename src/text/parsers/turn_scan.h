#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "text/parsers/reading.h"
#include "text/parsers/turn_builder.h"
#include "text/parsers/turn_input.h"
#include "text/tool_call_parser.h"

namespace stoker {

// What the readers of a turn share.
struct TurnScan {
  TurnInput in;
  TurnBuilder out;
  ParseOptions options;
  bool thought = false;   // no closing tag of thinking can turn what was read into thinking any more
  size_t body_begin = 0;  // where the text behind the thinking starts
};

// Beside tag indices: the text has ended; what was read was thinking and the body starts anew behind it.
inline constexpr int kTextEnd = -1;
inline constexpr int kRestart = -2;

// Takes text as content up to the first of `tags`, whose index it returns with the tag not yet consumed.
Reading<int> content_until(TurnScan& scan, std::span<const std::string_view> tags);

// Skips to the first of `tags` or the end of a thinking that the prompt opened, which is not consumed: where
// reading goes on behind a broken call. Returns the tag's index, kRestart for the thinking's end, or
// kTextEnd.
Reading<int> skip_until(TurnScan& scan, std::span<const std::string_view> tags);

// Skips blanks and returns the byte behind them, not consumed, or TurnInput::kEnd.
Reading<int> skip_blanks(TurnScan& scan);

// Consumes one of `tags` if it stands here; returns its index or kNoTag.
Reading<int> take_tag(TurnScan& scan, std::span<const std::string_view> tags);

// The text at `place` for an error sentence: quoted, of bounded length, the same however the text arrives.
Reading<std::string> excerpt(TurnScan& scan, size_t place);

// Separates the thinking at the front of the turn. Sets `thought` and `body_begin`.
Reading<bool> read_reasoning(TurnScan& scan);

// Whether only blanks stand between `place` and the start of its line or of the body.
bool starts_line(const TurnScan& scan, size_t place);

}  // namespace stoker
