#pragma once

#include <filesystem>
#include <istream>
#include <ostream>
#include <string>

namespace stoker {

// What `stoker text parse` was given.
struct TextParseArguments {
  std::string format;           // a name of tool_call_formats(), or "list"
  std::filesystem::path input;  // empty or "-": standard input
  bool stream = false;          // feed the text byte by byte, and show what was announced
};

// Reads an object a line: "text", optionally "tools" (OpenAI's form) and "thinking" ("open": the prompt
// opened a thinking block; "closed": it did not; else the text decides). Writes for each
// {"reasoning", "content", "calls": [{"name", "arguments", "problem"}], "problems"}; a problem is null or
// {"position", "message"} with a byte offset into the text. Arguments are written as the model wrote them,
// null where they could not be read. With tools, a call of an unknown tool and arguments against the tool's
// schema are problems too. As a stream also "deltas". "list" writes the formats instead. Throws Error(kInput)
// naming the line.
void parse_turns(const TextParseArguments& arguments, std::istream& input, std::ostream& output);

// The verb: from the named file or standard input to standard output; returns the exit status.
int run_text_parse(const TextParseArguments& arguments);

}  // namespace stoker
