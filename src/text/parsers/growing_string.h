#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json_string.h"
#include "text/parsers/turn_scan.h"

namespace stoker {

// A value in bare text that grows in the open call's arguments as a JSON string.
class GrowingString {
 public:
  // A newline at the value's end is part of it, or belongs to the tag that follows.
  enum class LastNewline { kPart, kKeptBack };

  // `begin`: the value's first byte.
  GrowingString(TurnScan& scan, size_t begin, LastNewline last_newline)
      : scan_(scan), sent_(begin), last_newline_(last_newline) {
    scan_.out.add_arguments("\"");
  }

  // The value goes on up to `end`.
  void grow(size_t end) {
    if (last_newline_ == LastNewline::kKeptBack && end > sent_ && scan_.in.text()[end - 1] == '\n') --end;
    if (end <= sent_) return;
    std::string quoted;
    append_json_string(quoted, scan_.in.between(sent_, end), InvalidUtf8::kKeep);
    scan_.out.add_arguments(std::string_view(quoted).substr(1, quoted.size() - 2));
    sent_ = end;
  }

  void finish() { scan_.out.add_arguments("\""); }

 private:
  TurnScan& scan_;
  size_t sent_;
  LastNewline last_newline_;
};

}  // namespace stoker
