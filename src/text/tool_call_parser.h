#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <optional>

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
  ToolCall call;               // `raw` always; name and arguments as far as they were understood
  size_t position = 0;         // byte offset of `raw` in the parsed text
  std::string arguments_text;  // JSON text of the arguments, numbers as written; with a problem maybe cut off
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

// How a turn may begin.
enum class ThinkingStart {
  kUnknown,  // a closing tag of thinking without an opening one makes all before it thinking
  kOpen,     // the prompt has opened a thinking block
  kClosed,   // only an opening tag at the very start opens one
};

struct ParseOptions {
  ThinkingStart thinking = ThinkingStart::kUnknown;
  // The tools the model was offered. Formats without types (Qwen3-Coder's XML) read a parameter by its
  // schema; without one it is a string.
  std::vector<ToolSchema> tools;
};

// Growth of a turn. The texts of one kind (and call), joined in order, are the turn's `reasoning`, `content`,
// name and `arguments_text`.
struct TurnDelta {
  enum class Kind { kReasoning, kContent, kCallStarted, kArguments, kCallEnded };

  Kind kind = Kind::kContent;
  size_t call = 0;   // index into the turn's calls; 0 for reasoning and content
  std::string text;  // the tool's name for kCallStarted, empty for kCallEnded

  bool operator==(const TurnDelta&) const = default;
};

// Takes a turn apart while it still arrives, in any pieces. What has been announced is never taken back: the
// joined deltas equal the turn that `finish` returns, which equals ToolCallParser::parse of the whole text.
// With ThinkingStart::kUnknown nothing is announced until an opening or closing tag of thinking, or the end,
// settles what the text is. Time and memory are linear in the text.
class TurnStream {
 public:
  virtual ~TurnStream() = default;

  // Takes the next piece; returns what has become certain.
  virtual std::vector<TurnDelta> feed(std::string_view piece) = 0;

  struct End {
    std::vector<TurnDelta> deltas;  // what was not announced before
    ParsedTurn turn;
  };
  // The text has ended. To be called once, and nothing after it.
  virtual End finish() = 0;
};

// Takes an assistant's text apart. Never fails: what is not understood is a problem with its place.
// Immutable; any number of threads may use one.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;

  // `text`: the whole turn without the end-of-turn token.
  virtual ParsedTurn parse(std::string_view text, const ParseOptions& options = {}) const = 0;

  virtual std::unique_ptr<TurnStream> stream(const ParseOptions& options = {}) const = 0;

  // Whether ParseOptions::tools make a difference in this format.
  virtual bool reads_tools() const = 0;
};

struct ToolCallFormat {
  std::string name;         // for make_tool_call_parser
  std::string description;  // one line: who writes it and how it looks
};

// The formats there are, in alphabetical order.
std::vector<ToolCallFormat> tool_call_formats();

// The parser of a format. Each separates reasoning first, between <think> and </think> or the tags of other
// families. An unknown name throws Error(kInput) listing the known ones.
std::unique_ptr<const ToolCallParser> make_tool_call_parser(std::string_view format);

}  // namespace stoker
