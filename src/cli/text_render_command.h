#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <ostream>
#include <string>

namespace stoker {

// What `stoker text render` and `stoker text bridge` were given.
struct TextRenderArguments {
  std::filesystem::path
      chat_template;                // a Jinja file, a JSON file with "chat_template", or a model directory
  std::filesystem::path tokenizer;  // tokenizer.json or its directory; a bridge needs one
  std::filesystem::path input;      // empty or "-": standard input
  std::string date = "2024-07-26";  // what strftime_now tells
};

// Reads an object a line: "messages", and where wanted "tools", "add_generation_prompt" and further variables
// of the template. They reach it as they are written; what is not given is undefined, special tokens come
// from the directories' tokenizer_config.json. Writes for each {"text": ...} or {"error": ...}, with a
// tokenizer also "ids" and, for each, who wrote it, "authors". A row that is no such object gives an error
// that names its line, and the next one is read; returns how many were.
size_t render_conversations(const TextRenderArguments& arguments, std::istream& input, std::ostream& output);

// Reads the same with "prefix_ids", a prompt and what was sampled after it, and only the new "messages".
// Writes {"suffix_ids": [...]}, {"rewrites": {"message": ..., "reason": ...}} or {"error": ...}; returns the
// number of wrong rows.
size_t bridge_conversations(const TextRenderArguments& arguments, std::istream& input, std::ostream& output);

// The verbs: from the named file or standard input to standard output; return the exit status, that of wrong
// input when a row was wrong.
int run_text_render(const TextRenderArguments& arguments);
int run_text_bridge(const TextRenderArguments& arguments);

}  // namespace stoker
