#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "async/executor.h"
#include "io/line_splitter.h"

namespace stoker {

// The standard error of a process: to the log line by line under its name, the last lines kept. At most
// kLinesASecond lines a second go to the log; how many more there were is told.
class ErrorStream {
 public:
  static constexpr int kLinesASecond = 200;
  static constexpr size_t kMaxLineBytes = 4096;  // longer lines are cut
  static constexpr size_t kKeptLines = 64;
  static constexpr size_t kKeptBytes = 4096;

  explicit ErrorStream(std::string name) : name_(std::move(name)) {}

  void feed(std::string_view bytes, TimePoint now);
  // The line that no '\n' ended, and how many lines were left out.
  void finish(TimePoint now);

  // The last lines, joined by " | ".
  std::string last_words() const;

 private:
  void take(std::string_view line, TimePoint now);
  void tell_left_out();

  std::string name_;
  LineSplitter lines_{kMaxLineBytes, LineSplitter::Overlong::kCut};
  std::deque<std::string> last_;
  size_t last_bytes_ = 0;
  TimePoint second_{};  // when the current second began
  int logged_ = 0;      // in it
  int64_t left_out_ = 0;
};

// `text` with bytes that could change a terminal's state replaced by '?', for the log.
std::string printable(std::string_view text);

}  // namespace stoker
