#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/message.h"

namespace stoker {

// Something in a model's text that could not be understood.
struct ParseProblem {
  size_t position = 0;  // byte offset into the parsed text
  std::string message;  // one sentence that the model can act on, of bounded length

  bool operator==(const ParseProblem&) const = default;
};

// One call as the model wrote it. With a problem it must not be run: the problem is the result that the model
// sees (shared cases ENV-01, ENV-03).
struct ParsedCall {
  ToolCall call;  // `raw` always; name and arguments as far as they were understood
  std::optional<ParseProblem> problem;

  bool operator==(const ParsedCall&) const = default;
};

// An assistant's turn, taken apart.
struct ParsedTurn {
  std::string reasoning;               // inside the thinking block, without the newlines at its ends
  std::string content;                 // text outside of reasoning and calls, blanks at its ends removed
  std::vector<ParsedCall> calls;       // in the order of the text
  std::vector<ParseProblem> problems;  // of the turn itself: thinking that does not end, a closing tag alone

  bool operator==(const ParsedTurn&) const = default;
};

// Takes an assistant's text apart. Never fails: what is not understood is a problem with its place.
// Immutable; any number of threads may use one.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;

  // `text`: the whole turn without the end-of-turn token.
  virtual ParsedTurn parse(std::string_view text) const = 0;
};

// Names for make_tool_call_parser, in alphabetical order.
std::vector<std::string> tool_call_formats();

// "hermes": JSON objects {"name", "arguments"} between <tool_call> and </tool_call>, as Hermes and Qwen write
// them, with reasoning between <think> and </think> in front. "none": no calls, the text is content
// (reasoning is still separated). An unknown name throws Error(kInput) listing the known ones.
std::unique_ptr<const ToolCallParser> make_tool_call_parser(std::string_view format);

}  // namespace stoker
