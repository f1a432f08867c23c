#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/parsers/turn_scan.h"

namespace stoker {

// Reads literal Python values and writes them as JSON to the open call's arguments, as they arrive. Nothing
// is evaluated. Strings (all quotes, escapes, raw, joined by standing side by side), numbers (kept as written
// where JSON can say them so), True, False, None and JSON's words, lists, tuples and sets (as lists), dicts
// whose keys are strings.
class PythonValueReader {
 public:
  explicit PythonValueReader(TurnScan& scan) : scan_(scan) {}

  // Reads one value at the place read up to. False: it is none; problem() says why at position().
  Reading<bool> read() { return value(0); }

  void write(std::string_view json);
  size_t position() const { return position_; }
  const std::string& problem() const { return problem_; }
  // Whether what is missing is only more text.
  bool cut() const { return cut_; }

 private:
  bool fail(std::string problem);
  bool cut_off();
  Reading<bool> value(int depth);
  Reading<bool> strings(std::string prefix);
  Reading<bool> string_part(bool raw, char quote);
  Reading<bool> escape(std::string& text, bool raw);
  Reading<bool> hex_escape(std::string& text, int digits);
  Reading<bool> word();
  Reading<bool> sequence(char closing, int depth);
  Reading<bool> braces(int depth);
  Reading<std::string> take_word();
  void write_text(std::string_view text);

  TurnScan& scan_;
  std::string buffer_;  // what may still become an element of a tuple
  int buffered_ = 0;    // tuples around the place
  size_t position_ = 0;
  std::string problem_;
  bool cut_ = false;
};

// A Python number as JSON writes it; nothing when it is no number or JSON has none such. What JSON can say is
// kept as written.
std::optional<std::string> python_number_to_json(std::string_view number);

}  // namespace stoker
