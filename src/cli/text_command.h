#pragma once

#include <filesystem>
#include <istream>
#include <ostream>
#include <string>

namespace stoker {

// What `stoker text encode` was given.
struct TextEncodeArguments {
  std::filesystem::path tokenizer;  // tokenizer.json or the directory that holds it
  std::filesystem::path input;      // empty or "-": standard input
  std::string special = "text";     // what special tokens in the text are: "text" or "control"
  bool add_bos = false;  // the tokens that the model's makers put around a text are put there, once
  bool raw = false;      // the whole input is one text; else each line is a JSON string
};

// What `stoker text decode` was given.
struct TextDecodeArguments {
  std::filesystem::path tokenizer;
  std::filesystem::path input;
  bool skip_special = false;  // leaves out tokens that the file marks as special
  bool stream = false;        // also what each id releases
};

// Reads texts and writes a line {"ids": [...], "offsets": [[begin, end], ...]} for each; offsets are bytes of
// the text. A "\ud800" without its other half is the three bytes that UTF-8 would give it. Throws
// Error(kInput) naming the line.
void encode_texts(const TextEncodeArguments& arguments, std::istream& input, std::ostream& output);

// Reads a JSON list of ids a line and writes a line {"text": ...} for each; as a stream also "deltas", the
// text released by each id, and "flush", what is left in the end. Bytes that are no UTF-8 are written as
// U+FFFD. Throws Error(kInput) naming the line.
void decode_texts(const TextDecodeArguments& arguments, std::istream& input, std::ostream& output);

// The verbs: from the named file or standard input to standard output; return the exit status.
int run_text_encode(const TextEncodeArguments& arguments);
int run_text_decode(const TextDecodeArguments& arguments);

}  // namespace stoker
