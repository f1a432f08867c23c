#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "async/function_ref.h"

namespace stoker {

// Cuts a stream of bytes, as it comes in pieces, into lines that end with '\n' (a '\r' before it goes too).
// Holds at most one line. The lines do not depend on how the bytes were cut into pieces.
//
//   LineSplitter lines(size_t{16} << 20);
//   if (!lines.feed(bytes, [&](std::string_view line) { take(line); })) too_long();
class LineSplitter {
 public:
  // What happens to a line of more than `max_line_bytes`.
  enum class Overlong {
    kRefuse,  // feed gives false, now and ever after: the stream cannot be trusted
    kCut,     // it comes as several lines of that many bytes
  };

  explicit LineSplitter(size_t max_line_bytes, Overlong overlong = Overlong::kRefuse)
      : max_line_bytes_(max_line_bytes), overlong_(overlong) {}

  // Calls take(line) for each line that `bytes` completes. False: a line was too long; lines before it were
  // given.
  bool feed(std::string_view bytes, FunctionRef<void(std::string_view line)> take);

  // What came after the last '\n'.
  std::string_view rest() const { return rest_; }

 private:
  bool complete(std::string_view line, FunctionRef<void(std::string_view)> take);

  size_t max_line_bytes_;
  Overlong overlong_;
  std::string rest_;
  bool refused_ = false;
};

}  // namespace stoker
